/// Formats metrics for Prometheus: text format 0.0.4.
public struct PrometheusText {
  public private(set) var text = ""

  public init() {}

  public enum Kind: String, Sendable { case counter, gauge, histogram }

  public mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  /// Appends one line. Label values may hold any characters, which are escaped.
  public mutating func sample(_ name: String, _ labels: KeyValuePairs<String, String>, _ value: Int64) {
    line(name, labels, "\(value)")
  }

  public mutating func sample(_ name: String, _ labels: KeyValuePairs<String, String>, _ value: UInt64) {
    line(name, labels, "\(value)")
  }

  /// Appends a time in seconds. `milliseconds`: not negative.
  public mutating func seconds(_ name: String, _ labels: KeyValuePairs<String, String>, milliseconds: UInt64) {
    line(name, labels, Self.seconds(milliseconds))
  }

  /// Appends the lines of one histogram.
  public mutating func histogram(_ name: String, _ labels: KeyValuePairs<String, String>, _ times: TimeHistogram) {
    var sum: UInt64 = 0
    for (place, count) in times.buckets.enumerated() {
      sum &+= count
      let bound = place < times.bounds.count ? Self.seconds(times.bounds[place]) : "+Inf"
      line("\(name)_bucket", labels, "\(sum)", le: bound)
    }
    seconds("\(name)_sum", labels, milliseconds: times.sum)
    line("\(name)_count", labels, "\(sum)")
  }

  /// Appends a family with one label: the sums of the workers' counters.
  public mutating func tally<Label: CaseIterable & RawRepresentable<String>>(
    _ name: String, _ help: String, label: String, _ workers: [Counter<Label>]
  ) {
    family(name, .counter, help)
    let counts = workers.map(\.all)
    for (place, key) in Label.allCases.enumerated() where !key.rawValue.isEmpty {
      sample(name, [label: key.rawValue], counts.reduce(UInt64(0)) { $0 &+ $1[place].count })
    }
  }

  private mutating func line(
    _ name: String, _ labels: KeyValuePairs<String, String>, _ value: String, le bound: String? = nil
  ) {
    text += name
    var before = "{"
    for (key, value) in labels {
      text += before
      text += key
      text += "=\""
      text += Self.escaped(value)
      text += "\""
      before = ","
    }
    if let bound {
      text += before
      text += "le=\""
      text += bound
      text += "\""
      before = ","
    }
    text += before == "{" ? " " : "} "
    text += value
    text += "\n"
  }

  /// `1.5` for 1500, `0.005` for 5.
  private static func seconds(_ milliseconds: UInt64) -> String {
    var rest = "\(1000 + milliseconds % 1000)".dropFirst()
    while rest.last == "0" { rest.removeLast() }
    return rest.isEmpty ? "\(milliseconds / 1000)" : "\(milliseconds / 1000).\(rest)"
  }

  private static func escaped(_ value: String) -> String {
    guard value.utf8.contains(where: { $0 == 0x5C || $0 == 0x22 || $0 == 0x0A }) else { return value }
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
