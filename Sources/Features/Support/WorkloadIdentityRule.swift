import Crypto
import Forward
import Observability
import SPIFFE
import TLS
import Traffic

/// What is wrong with the text after `spiffe:`.
enum WorkloadIdentityRule {
  /// Where a certificate is named.
  static func fault(of reference: MaterialReference) -> Diagnostic? {
    guard reference.isOfWorkload else { return nil }
    do throws(SPIFFEIDError) {
      if let id = try reference.workloadID(), id.path.isEmpty {
        throw SPIFFEIDError("it names a trust domain, not a workload")
      }
      return nil
    } catch {
      return Diagnostic(
        .error, at: reference.location, "\"\(reference)\" is no SPIFFE ID of a workload: \(error)",
        hint: "spiffe: for the agent's default identity, or an ID as spiffe://example.org/ns/prod/sa/web")
    }
  }

  /// Where CAs are named.
  static func fault(ofTrust reference: MaterialReference) -> Diagnostic? {
    do throws(SPIFFEIDError) {
      _ = try WorkloadTrust(reference)
      return nil
    } catch {
      return Diagnostic(
        .error, at: reference.location, "\"\(reference)\" is no trust domain: \(error)",
        hint: "spiffe: for every trust domain that the agent knows, or one as spiffe://example.org")
    }
  }
}
