import Traffic

/// What the process knows of a certificate that it renews by itself, for metrics, the status page and `sallyport health`.
package struct ACMERenewalState: Sendable, Hashable {
  package var issuer: String
  /// The names of the certificate.
  package var names: String
  /// Seconds since 1970; nil: there is no certificate yet.
  package var notAfter: Int64?
  /// Seconds since 1970.
  package var nextTry: Int64
  /// Attempts that failed since the last one that did not.
  package var failures: Int
  /// Empty: the last attempt did not fail.
  package var lastError: String
  /// Why the certificate that serves can't be written; nil: it is on the disk, or there is none.
  package var unwritten: String?

  package init(
    issuer: String, names: String, notAfter: Int64?, nextTry: Int64, failures: Int, lastError: String
  ) {
    self.issuer = issuer
    self.names = names
    self.notAfter = notAfter
    self.nextTry = nextTry
    self.failures = failures
    self.lastError = lastError
  }

  /// What somebody should look at; nil: all is well. `isServing`: there is a certificate that has not ended.
  package func trouble(at now: Int64) -> (words: String, isServing: Bool)? {
    let isServing = notAfter.map { $0 > now } ?? false
    let what = "The certificate of \(names), by acme_issuer \(issuer),"
    if isServing, let unwritten {
      return ("\(what) is in memory alone, and a restart orders another one: \(unwritten)", true)
    }
    if isServing, failures == 0 { return nil }
    let cause = lastError.isEmpty ? "" : ": \(lastError)"
    if !isServing {
      return ("\(what) \(notAfter == nil ? "is not there yet" : "has ended"), so handshakes fail\(cause)", false)
    }
    return ("\(what) could not be renewed, \(failures) \(failures == 1 ? "attempt" : "attempts") so far\(cause)", true)
  }
}
