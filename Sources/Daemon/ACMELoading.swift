import ACME
import Bytes
import Crypto
import Glibc
import Observability
import Proxy
import TLS

extension MaterialLoader {
  /// Reports what is wrong with the files that an issuer names. They are read again for each order.
  mutating func tryIssuer(_ issuer: ACMEIssuerSettings) {
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

/// The file of a certificate of ACME. Blocks.
enum AwaitedCertificate {
  /// Throws for a file that is cut, even behind a certificate.
  static func load(_ file: MaterialReference, passwords: [SecretBytes] = [], _ tokens: TokenRefusals)
    throws(MaterialError)
    -> CertifiedKey
  {
    let pair = try CertifiedKey.load(
      certificate: file, key: nil, passwords: passwords, tokens: tokens, onlyRegular: true)
    guard IssuedCertificate.isWhole(try file.read(expecting: .certificate, onlyRegular: true)) else {
      throw MaterialError(
        culprit: file.description, location: file.location,
        message: "\"\(file)\" has fewer certificates than its first line says: it was cut")
    }
    return pair
  }

  /// Whether something is in the place of the file that this process may read, whatever it is.
  static func isReadable(_ path: String) -> Bool { access(path, R_OK) == 0 }
}

/// What an order needs of the files that an issuer names. Blocks.
enum IssuerMaterial {
  static func accountKey(_ reference: MaterialReference) throws(ACMEError) -> JSONWebKey {
    try webKey(try StateFolder.key(reference))
  }

  /// `damaged`: told of a key that is replaced, because its file had none.
  static func accountKey(
    _ source: AccountKeySource, in folder: StateFolder, damaged: (ACMEError) -> Void
  ) throws(ACMEError) -> JSONWebKey {
    switch source {
    case .file(let reference): try accountKey(reference)
    case .generated(let kind): try webKey(try folder.accountKey(kind, damaged: damaged))
    }
  }

  private static func webKey(_ key: PrivateKey) throws(ACMEError) -> JSONWebKey {
    do throws(CryptoError) {
      return try JSONWebKey(key)
    } catch {
      throw ACMEError("the account's key can't be used: \(error)", cure: .change)
    }
  }

  static func externalAccount(_ settings: ExternalAccountSettings) throws(ACMEError) -> ExternalAccount {
    let bytes: SecretBytes
    do throws(MaterialError) {
      bytes = try settings.key.read(expecting: .macKey)
    } catch {
      throw ACMEError(error.message, hint: error.hint, cure: .change)
    }
    guard let account = ExternalAccount(identifier: settings.identifier, file: bytes) else {
      throw ACMEError(
        "\"\(settings.key)\" holds no key of an external account", hint: "expected base64url, as the CA gave it",
        cure: .change)
    }
    return account
  }

  /// The context that judges the ACME server.
  static func context(_ issuer: ACMEIssuerSettings) throws(ACMEError) -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.reusesSessions = false
    // As many intermediates as CAs of ACME servers have, and some more.
    settings.verifyDepth = 8
    do {
      let policy: TrustPolicy
      if !issuer.verifiesServer {
        policy = .anybody
      } else if let file = issuer.trustedCertificate {
        policy = .verified(try TrustAnchors(.certificates(try Certificate.loadAll(file))), checksName: true)
        settings.trust = .verified(AnchorSettings(file: file, includesSystem: false), checksName: true)
      } else {
        policy = .verified(try TrustAnchors.system.get(), checksName: true)
        settings.trust = .verified(AnchorSettings(file: nil, includesSystem: true), checksName: true)
      }
      return try UpstreamTLSContext(
        settings: settings, material: UpstreamTLSMaterial(policy: policy, identity: nil))
    } catch {
      throw ACMEError("the CAs that verify the ACME server can't be taken: \(error)", cure: .change)
    }
  }
}
