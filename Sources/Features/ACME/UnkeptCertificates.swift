package import ACME
import Synchronization
package import Traffic

/// Certificates that were issued, and that could not be written: they serve from memory until they can be. All workers
/// share one object, which outlives generations. The configuration bounds how many there are.
package final class UnkeptCertificates: SharedPart {
  private let issued = Mutex<[String: IssuedCertificate]>([:])

  package init(_ shared: SharedState) {}

  /// `path`: of the file that should have it.
  package func certificate(at path: String) -> IssuedCertificate? { issued.withLock { $0[path] } }

  /// The files that should have one, in order.
  package var paths: [String] { issued.withLock { $0.keys.sorted() } }

  package func keep(_ certificate: IssuedCertificate, at path: String) { issued.withLock { $0[path] = certificate } }

  package func drop(at path: String) { issued.withLock { $0[path] = nil } }
}
