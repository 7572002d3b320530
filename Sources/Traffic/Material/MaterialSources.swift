package import Crypto
package import SPIFFE

/// What the process has that files are loaded with.
package struct MaterialSources {
  let tokens: TokenRefusals
  /// One message of the SPIFFE agent for all blocks, whatever comes meanwhile.
  let workload: WorkloadIdentity.State
  /// Finds the certificate that the process holds for a file that it could not write.
  let held: (String) -> CertifiedKey?

  /// Those of a process that only loads files.
  package init() { self.init(tokens: TokenRefusals(), workload: WorkloadIdentity().current) { _ in nil } }

  package init(
    tokens: TokenRefusals, workload: WorkloadIdentity.State, held: @escaping (String) -> CertifiedKey?
  ) {
    self.tokens = tokens
    self.workload = workload
    self.held = held
  }
}
