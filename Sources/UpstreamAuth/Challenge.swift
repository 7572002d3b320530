/// One challenge of a WWW-Authenticate field (RFC 9110 §11.3), as received; its scheme is not interpreted yet.
package struct Challenge: Sendable, Equatable {
  package enum Content: Sendable, Equatable {
    case bare
    case token68([UInt8])
    case parameters([Parameter])
  }

  package struct Parameter: Sendable, Equatable {
    /// In lower case.
    package let name: String
    /// The value without quotes and escapes.
    package let value: [UInt8]
  }

  /// In lower case.
  package let scheme: String
  package let content: Content

  /// Returns the value of a parameter; `name` in lower case.
  subscript(name: String) -> [UInt8]? {
    guard case .parameters(let all) = content else { return nil }
    return all.first { $0.name == name }?.value
  }
}

/// Parses WWW-Authenticate, which an upstream may send in several lines, each with several challenges.
///
/// The parser is bounded. It stops reading a line at the first malformed or excessive part. Complete challenges before
/// that part count.
package enum ChallengeParser {
  static let lineLimit = 16 * 1024
  static let challengeLimit = 16
  static let parameterLimit = 32

  /// Appends the challenges of one field line. Returns false when parsing stopped before the end.
  @discardableResult
  package static func parse(_ line: [UInt8], into challenges: inout [Challenge]) -> Bool {
    guard line.count <= lineLimit else { return false }
    var scanner = ChallengeScanner(line)
    while true {
      scanner.skipSeparators()
      if scanner.isAtEnd { return true }
      guard challenges.count < challengeLimit, let scheme = scanner.token(),
        scanner.isAtEnd || scanner.isAtComma || scanner.isAtBlank, let content = content(&scanner)
      else { return false }
      challenges.append(Challenge(scheme: lowercased(scheme), content: content))
    }
  }

  /// Parses the parameters of Authentication-Info (RFC 7615 §3); nil when they are malformed.
  static func parameters(_ line: [UInt8]) -> [Challenge.Parameter]? {
    guard line.count <= lineLimit else { return nil }
    var scanner = ChallengeScanner(line)
    scanner.skipSeparators()
    guard let parameters = parameters(&scanner), scanner.isAtEnd else { return nil }
    return parameters
  }

  /// Parses what follows a scheme: nothing, a token68, or parameters up to the next scheme.
  private static func content(_ scanner: inout ChallengeScanner) -> Challenge.Content? {
    scanner.skipBlanks()
    if scanner.isAtEnd || scanner.isAtComma { return .bare }
    let start = scanner.at
    if let token = scanner.token68() {
      scanner.skipBlanks()
      if scanner.isAtEnd || scanner.isAtComma { return .token68(token) }
    }
    scanner.at = start
    return parameters(&scanner).map { .parameters($0) }
  }

  private static func parameters(_ scanner: inout ChallengeScanner) -> [Challenge.Parameter]? {
    var all: [Challenge.Parameter] = []
    while true {
      guard all.count < parameterLimit, let name = scanner.parameterName().map(lowercased),
        let value = scanner.value(), !all.contains(where: { $0.name == name })
      else { return nil }
      all.append(Challenge.Parameter(name: name, value: value))
      scanner.skipBlanks()
      if scanner.isAtEnd { return all }
      guard scanner.isAtComma else { return nil }
      let end = scanner.at
      scanner.skipSeparators()
      if scanner.isAtEnd { return all }
      // A name with `=` is a parameter of this challenge; anything else begins the next challenge.
      let next = scanner.at
      let isParameter = scanner.parameterName() != nil
      scanner.at = isParameter ? next : end
      if !isParameter { return all }
    }
  }

  /// A token is ASCII.
  private static func lowercased(_ token: [UInt8]) -> String { String(decoding: token, as: UTF8.self).lowercased() }
}
