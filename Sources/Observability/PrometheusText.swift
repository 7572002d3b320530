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

  /// Appends a family with one label: the sums of the workers' counters.
  public mutating func tally<Label>(_ name: String, _ help: String, label: String, _ workers: [Counter<Label>]) {
    family(name, .counter, help)
    let counts = workers.map(\.all)
    for (place, key) in Label.allCases.enumerated() where !key.rawValue.isEmpty {
      let sum = counts.reduce(UInt64(0)) { $0 &+ $1[place].count }
      sample(name, [label: key.rawValue], Int64(clamping: sum))
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
