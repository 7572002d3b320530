/// Formats metrics for Prometheus: text format 0.0.4.
public struct PrometheusText {
  public private(set) var text = ""

  public init() {}

  public enum Kind: String, Sendable { case counter, gauge }

  public mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  /// Appends one line. Label values may hold any characters, which are escaped.
  public mutating func sample(_ name: String, _ labels: KeyValuePairs<String, String>, _ value: Int64) {
    text += name
    if !labels.isEmpty {
      text += "{" + labels.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",") + "}"
    }
    text += " \(value)\n"
  }

  /// Appends a family with one label, from a tally.
  public mutating func tally<Label>(_ name: String, _ help: String, label: String, _ tally: Counter<Label>) {
    family(name, .counter, help)
    for (key, count) in tally.all where !key.rawValue.isEmpty {
      sample(name, [label: key.rawValue], Int64(clamping: count))
    }
  }

  private static func escaped(_ value: String) -> String {
    var result = ""
    for character in value.unicodeScalars {
      switch character {
      case "\\": result += "\\\\"
      case "\"": result += "\\\""
      case "\n": result += "\\n"
      default: result.unicodeScalars.append(character)
      }
    }
    return result
  }
}
