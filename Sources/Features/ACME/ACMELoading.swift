import ACME
import Crypto
import Forward
import Glibc
import Observability
import Traffic

extension ACMECertificates {
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    for certificate in http[ACMESettings.self].certificates { loader.tryIssuer(certificate.issuer) }
  }
}

extension MaterialLoader {
  /// Reports what is wrong with the files that an issuer names. They are read again for each order.
  fileprivate mutating func tryIssuer(_ issuer: ACMEIssuerSettings) {
    if let file = issuer.trustedCertificate { _ = authorities(file, passwordFile: nil) }
    func check(_ reference: MaterialReference, _ load: () throws(ACMEError) -> Void) {
      tryUnit(.privateKey, reference) { loader in
        do throws(ACMEError) { try load() } catch {
          loader.report(Diagnostic(.error, at: reference.location, error.message, hint: error.hint))
        }
      }
    }
    if case .dns01(let program) = issuer.challenge, let fault = Self.fault(ofProgram: program) {
      // Beside a configuration that serves, it concerns the next order alone, which says so again.
      report(
        Diagnostic(
          former.isOfSameConfiguration ? .warning : .error, at: issuer.location,
          "\"challenge dns-01 \(program)\" can't be run: \(fault)",
          hint: "a file that the serving user may execute; a script begins with #! and its interpreter"))
    }
    switch issuer.accountKey {
    case .file(let key): check(key) { () throws(ACMEError) in _ = try IssuerMaterial.accountKey(key) }
    case .generated:
      if let fault = StateFolder(issuer.stateFolder).accountKeyFault {
        report(
          Diagnostic(
            .warning, at: issuer.location,
            "the key of the account with acme_issuer \(issuer.name) is damaged: \(fault.message)",
            hint: "the next order makes a new account; put the key back from a backup if the CA knows this one"))
      }
    }
    if let account = issuer.externalAccount {
      check(account.key) { () throws(ACMEError) in _ = try IssuerMaterial.externalAccount(account) }
    }
  }

  private static func fault(ofProgram program: String) -> String? {
    var state = stat()
    guard stat(program, &state) == 0 else { return String(cString: strerror(errno)) }
    guard state.st_mode & S_IFMT == S_IFREG else { return "it is no file" }
    return state.st_mode & 0o111 == 0 ? "nobody may execute it" : nil
  }
}

extension ACMECertificates {
  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    Set(http[ACMESettings.self].certificates.map(\.issuer)).flatMap { issuer in
      // One that is missing gets no rule: the rule would be for the folder above it.
      let folder = access(issuer.stateFolder, F_OK) == 0 ? [issuer.stateFolder] : []
      return FileUse.material(issuer.material) + folder.map { .path(.change, $0, at: issuer.location) }
    }
  }
}
