/// One challenge of a WWW-Authenticate field (RFC 9110 §11.3), as it was sent: nothing is known of its scheme yet.
package struct Challenge: Sendable, Equatable {
  package enum Content: Sendable, Equatable {
    case bare
    case token68([UInt8])
    case parameters([Parameter])
  }

  package struct Parameter: Sendable, Equatable {
    /// In small letters.
    package let name: String
    /// Without quotes, escapes undone.
    package let value: [UInt8]
  }

  /// In small letters.
  package let scheme: String
  package let content: Content

  /// The value of a parameter; `name` in small letters.
  subscript(name: String) -> [UInt8]? {
    guard case .parameters(let all) = content else { return nil }
    return all.first { $0.name == name }?.value
  }
}

/// Reads WWW-Authenticate, which an upstream may send in several lines, each with several challenges.
///
/// Bounded: what is over a bound, or malformed, ends the reading of its line; challenges that stood whole before it count.
package enum ChallengeParser {
  static let lineLimit = 16 * 1024
  static let challengeLimit = 16
  static let parameterLimit = 32

  /// Appends the challenges of one field line. False when it was not read to its end.
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

  /// The parameters of Authentication-Info (RFC 7615 §3); nil when they are none.
  static func parameters(_ line: [UInt8]) -> [Challenge.Parameter]? {
    guard line.count <= lineLimit else { return nil }
    var scanner = ChallengeScanner(line)
    scanner.skipSeparators()
    guard let parameters = parameters(&scanner), scanner.isAtEnd else { return nil }
    return parameters
  }

  /// What follows a scheme: nothing, a token68, or parameters up to the next scheme.
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
      // A name and `=` belong to this challenge; anything else begins the next.
      let next = scanner.at
      let isParameter = scanner.parameterName() != nil
      scanner.at = isParameter ? next : end
      if !isParameter { return all }
    }
  }

  /// ASCII only: it is a token.
  private static func lowercased(_ token: [UInt8]) -> String { String(decoding: token, as: UTF8.self).lowercased() }
}
