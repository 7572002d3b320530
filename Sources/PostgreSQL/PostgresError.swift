/// Why a database was not asked, or did not answer.
package struct PostgresError: Error, Sendable, Hashable {
  package enum Kind: Sendable, Hashable {
    /// libpq is missing or too old.
    case library
    /// The address can't be used: nothing was asked.
    case address
    /// There is no session, or it ended. What was asked last may have been done or not.
    case lost
    /// The server refused a statement, with this SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).
    case refused(String)
  }

  package let kind: Kind
  /// One line, without a password.
  package let message: String
  package let hint: String?

  package init(_ kind: Kind, _ message: String, hint: String? = nil) {
    self.kind = kind
    self.message = message
    self.hint = hint
  }

  /// libpq's messages have lines of their own, and one at the end.
  static func line(_ text: UnsafePointer<CChar>?) -> String {
    guard let text else { return "no reason given" }
    let words = String(cString: text).split { $0 == "\n" || $0 == "\t" }
      .map { $0.drop { $0 == " " } }
    return words.isEmpty ? "no reason given" : words.joined(separator: "; ")
  }
}
