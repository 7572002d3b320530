package import ACME
import Bytes
package import Crypto
import Forward
package import TLS
import Traffic

/// What an order needs of the files that an issuer names. Blocks.
package enum IssuerMaterial {
  package static func accountKey(_ reference: MaterialReference) throws(ACMEError) -> JSONWebKey {
    try webKey(try StateFolder.key(reference))
  }

  /// `damaged`: told of a key that is replaced, because its file had none.
  package static func accountKey(
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

  package static func externalAccount(_ settings: ExternalAccountSettings) throws(ACMEError) -> ExternalAccount {
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
  package static func context(_ issuer: ACMEIssuerSettings) throws(ACMEError) -> UpstreamTLSContext {
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
