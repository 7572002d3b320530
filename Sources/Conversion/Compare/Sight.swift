/// What a client of a comparison saw.
package enum Sight: Sendable, Hashable, CustomStringConvertible {
  /// No connection, or no handshake, or an end without an answer.
  case refused(String)
  /// The proxy's own answer.
  case answered(status: Int, location: String?)
  /// A server behind answered, with the fields that it got.
  case reached(target: Int, fields: [String: String])

  /// `reason`: why there is no answer; "": the connection just ended. `port`: the one that stands in for a listener, which
  /// differs between the programs.
  package init(_ answer: [UInt8], reason: String, port: Int = 0) {
    let text = String(decoding: answer.prefix(65_536), as: UTF8.self).replacing(
      "\(port)", with: port == 0 ? "0" : "PORT")
    // CR and LF are one character.
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    if let line = lines.first(where: { $0.hasPrefix(Self.greeting) }),
      let target = Int(line.dropFirst(Self.greeting.count))
    {
      var fields: [String: String] = [:]
      for line in lines where line.hasPrefix("field ") {
        let parts = line.dropFirst(6).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2 { fields[String(parts[0])] = String(parts[1]) }
      }
      self = .reached(target: target, fields: fields)
    } else if text.hasPrefix("HTTP/1."), let status = Int(text.dropFirst(9).prefix(3)) {
      let location = lines.first { $0.lowercased().hasPrefix("location:") }?.dropFirst(9)
      self = .answered(status: status, location: location.map { OldText.trimmed($0) })
    } else {
      self = .refused(answer.isEmpty ? reason : "something that is no HTTP")
    }
  }

  /// How a stand-in begins its answer, with its number behind.
  package static let greeting = "stand-in "

  /// Whether the answer of a stand-in has come, perhaps behind the greeting of its protocol.
  package static func hasCome(_ answer: [UInt8]) -> Bool {
    let lines = String(decoding: answer, as: UTF8.self).split(
      omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    return lines.dropLast().contains { $0.hasPrefix(greeting) }
  }

  package var isLetIn: Bool { if case .reached = self { true } else { false } }

  package var description: String {
    switch self {
    case .refused(let reason): reason.isEmpty ? "the connection ends" : reason
    case .answered(let status, let location): "status \(status)" + (location.map { " to \($0)" } ?? "")
    case .reached(let target, _): "server \(target)"
    }
  }

  /// Whether a client can't tell these apart, as far as a comparison goes: the reason of a refusal doesn't count.
  func isLike(_ other: Sight) -> Bool {
    switch (self, other) {
    case (.refused, .refused): true
    default: self == other
    }
  }
}
