import Crypto
import Forward
import Observability
import SPIFFE
import TLS
import Traffic

/// What one block of TLS settings takes from the Workload API.
struct WorkloadParts {
  var identity: CertifiedKey?
  var bundles: TrustBundles?
  var term = WorkloadTerm.unneeded
}

extension MaterialLoader {
  /// Takes identity and bundles of the agent's last message. Without one, the parts say why: the block then refuses its
  /// handshakes, and the start goes on. `identity`: `spiffe:` as the configuration has it; nil if files have the
  /// certificate. `trust`: nil if files have the CAs.
  mutating func workload(
    identity reference: MaterialReference?, trust: WorkloadTrust?, at place: SourceLocation?
  ) -> WorkloadParts? {
    var parts = WorkloadParts()
    guard reference != nil || trust != nil else { return parts }
    let state = workloadState, material = state.material
    var ends: [Int64] = []
    if let trust {
      do throws(OpenSSLError) { parts.bundles = try TrustBundles(material, trust) } catch {
        // What was trusted before may have been taken away by this message, so it does not stay.
        let reason = "OpenSSL refuses the bundles of the SPIFFE agent: \(error)"
        report(Diagnostic(.warning, at: place, reason))
        parts.bundles = try? TrustBundles(nil, trust)
        parts.term = .missing(reason: reason)
        return parts
      }
      if let material { ends.append(material.end) }
    }
    guard let material else {
      parts.term = .missing(reason: state.absence)
      return parts
    }
    if let reference {
      switch material.find(try? reference.workloadID()) {
      case .usable(let svid):
        parts.identity = svid.pair
        ends.append(svid.end)
      case .unusable(let reason):
        parts.term = .missing(reason: reason)
        return parts
      case .unknown:
        parts.term = .missing(reason: "the agent gives no identity \(reference), but \(material.ids)")
        return parts
      }
    }
    parts.term = .until(ends.min() ?? .min)
    return parts
  }
}
