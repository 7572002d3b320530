import Crypto
import Glibc

/// Why the authority's directory could not be read or changed. Its state is then the same as before.
package struct AuthorityError: Error, Sendable, Hashable, CustomStringConvertible {
  /// A sentence that names the culprit, its fault and what was expected.
  package let message: String
  /// What to do.
  package let hint: String?
  package let kind: Kind

  package enum Kind: Sendable, Hashable {
    case fault
    /// What keeps the register is not there now: the same request may succeed later.
    case unavailable
  }

  package init(_ message: String, hint: String? = nil, _ kind: Kind = .fault) {
    self.message = message
    self.hint = hint
    self.kind = kind
  }

  init(_ error: MaterialError) { self.init(error.message, hint: error.hint) }
  init(_ what: String, _ error: OpenSSLError) { self.init("\(what): \(error)") }

  /// Describes a failed system call.
  static func system(_ call: String, _ path: String, _ code: CInt = errno) -> AuthorityError {
    AuthorityError("\(NewFile.Failure(call, path, code))")
  }

  static func system(_ body: () throws(NewFile.Failure) -> Void) throws(AuthorityError) {
    do throws(NewFile.Failure) { try body() } catch { throw AuthorityError("\(error)") }
  }

  package var description: String { message + (hint.map { "\n    hint: \($0)" } ?? "") }
}
