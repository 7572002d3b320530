package import Crypto
import Synchronization

/// The state that outlives a request for a certificate or a check of a password.
///
/// It belongs to the daemon, so a reload does not reset the failure counts, and all generations and workers share each
/// cache.
package final class EnrolmentState: Sendable {
  let failures = Mutex(FailureWindow())
  let tokens: TokenRefusals
  let sessions = DatabaseSessions()
  private let caches = Mutex<[String: FolderRegisterCache]>([:])
  /// More authorities than any one configuration has. A daemon with more reads their registers more often.
  private static let cacheLimit = 64

  /// `tokens`: the refused PINs that all key loading of the process shares.
  package init(tokens: TokenRefusals) { self.tokens = tokens }

  /// Returns the cache of a directory's register, by its path.
  func cache(of folder: AuthorityFolder) -> FolderRegisterCache {
    caches.withLock { caches in
      if let known = caches[folder.path] { return known }
      if caches.count >= Self.cacheLimit { caches = [:] }
      let cache = FolderRegisterCache()
      caches[folder.path] = cache
      return cache
    }
  }
}
