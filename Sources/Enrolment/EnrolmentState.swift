package import Crypto
import Synchronization

/// The state that outlives a request for a certificate or a check of a password.
///
/// It belongs to the daemon, so a reload does not reset the failure counts, and all generations and workers share each
/// register.
package final class EnrolmentState: Sendable {
  let failures = Mutex(FailureWindow())
  let tokens: TokenRefusals
  private let registers = Mutex<[String: AuthorityRegister]>([:])
  /// More authorities than any one configuration has. A daemon with more reads their registers more often.
  private static let registerLimit = 64

  /// `tokens`: the refused PINs that all key loading of the process shares.
  package init(tokens: TokenRefusals) { self.tokens = tokens }

  /// Returns the register of a directory, by its path.
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
