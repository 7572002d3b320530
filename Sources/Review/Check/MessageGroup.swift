import Observability

/// Messages of one cause, which a report tells together: a file of another language would fill hundreds of lines otherwise.
struct MessageGroup {
  let all: [Diagnostic]

  /// What is told in full.
  var first: Diagnostic? { all.first }

  /// Messages that share a cause by name are told together. Others are if they say the same in all but names, many times.
  static func groups(_ messages: [Diagnostic]) -> [MessageGroup] {
    var order: [Key] = []
    var groups: [Key: [Diagnostic]] = [:]
    for message in messages {
      let key = Key(message)
      if groups[key] == nil { order.append(key) }
      groups[key, default: []].append(message)
    }
    return order.flatMap { key -> [MessageGroup] in
      let group = groups[key] ?? []
      return group.count < key.least ? group.map { MessageGroup(all: [$0]) } : [MessageGroup(all: group)]
    }
  }

  private enum Key: Hashable {
    case cause(Diagnostic.Severity, String)
    /// The words that are the same, and the advice: `did you mean "x"?` is of one name alone.
    case words(Diagnostic.Severity, String, String?)

    init(_ message: Diagnostic) {
      self =
        message.sharedCause.map { Key.cause(message.severity, $0.name) }
        ?? .words(message.severity, message.skeleton, message.hint)
    }

    /// How many messages are told together, at least.
    var least: Int {
      switch self {
      case .cause: 2
      case .words: 4
      }
    }
  }

  /// The one message that stands for all; nil if the first one is told as it is.
  var title: Diagnostic? {
    guard all.count > 1, let first, let cause = first.sharedCause, let title = cause.title else { return nil }
    return Diagnostic(
      first.severity, at: first.location, "\(all.count) \(title): \(Self.listed(all))",
      hint: cause.remedy.map { "\($0)" })
  }

  /// What the others are about, and where they are; nil if there are none.
  var others: String? {
    guard all.count > 1, title == nil else { return nil }
    return "and \(all.count - 1) more: \(Self.listed(all.dropFirst()))"
  }

  /// `fastcgi_param` ×21 in fastcgi_params:1-25, `fastcgi_pass` in site.conf:7.
  private static func listed(_ messages: some Collection<Diagnostic>) -> String {
    var order: [Spot] = []
    var lines: [Spot: [Int]] = [:]
    for message in messages {
      let spot = Spot(subject: message.sharedCause?.subject ?? "", file: message.location?.file ?? "")
      if lines[spot] == nil { order.append(spot) }
      lines[spot, default: []].append(message.location?.line ?? 0)
    }
    let shown = order.prefix(mostSpots).map { $0.words(lines[$0] ?? []) }.joined(separator: ", ")
    let hidden = order.dropFirst(mostSpots)
    guard !hidden.isEmpty else { return shown }
    let count = hidden.reduce(0) { $0 + (lines[$1]?.count ?? 0) }
    return "\(shown), and \(count) in \(Set(hidden.map(\.file)).count) more files (--verbose tells all)"
  }

  private static let mostSpots = 8

  private struct Spot: Hashable {
    let subject: String
    let file: String

    func words(_ lines: [Int]) -> String {
      let first = lines.min() ?? 0, last = lines.max() ?? 0
      let place = file.isEmpty ? "" : "\(file):\(first)\(last > first ? "-\(last)" : "")"
      let name = subject.isEmpty ? "" : subject + (lines.count > 1 ? " ×\(lines.count)" : "")
      return name.isEmpty ? place : place.isEmpty ? name : "\(name) in \(place)"
    }
  }
}
