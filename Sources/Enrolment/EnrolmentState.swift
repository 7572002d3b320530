package import Crypto
import Synchronization

/// What outlives a request for a certificate or a check of a password.
///
/// It belongs to the daemon: a reload forgives no wrong password, and all generations and workers know the same register.
package final class EnrolmentState: Sendable {
  let failures = Mutex(FailureWindow())
  let tokens: TokenRefusals
  private let registers = Mutex<[String: AuthorityRegister]>([:])
  /// More authorities than one configuration has; a daemon with more reads their registers more often.
  private static let registerLimit = 64

  /// `tokens`: those that the other keys of the process are loaded with.
  package init(tokens: TokenRefusals) { self.tokens = tokens }

  /// By the folder's path.
  func register(of folder: AuthorityFolder) -> AuthorityRegister {
    registers.withLock { registers in
      if let known = registers[folder.path] { return known }
      if registers.count >= Self.registerLimit { registers = [:] }
      let register = AuthorityRegister()
      registers[folder.path] = register
      return register
    }
  }
}
