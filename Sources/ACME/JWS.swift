package import Bytes
package import Crypto
import Observability

/// Signed requests of ACME: JWS in the flattened form (RFC 7515 §7.2.2, RFC 8555 §6.2).
package enum JWS {
  /// Who signs.
  package enum Signer: Sendable, Hashable {
    /// An account that does not exist yet: its public key goes along.
    case newAccount
    /// The URL of the account.
    case account(String)
  }

  /// Returns the body of a request. `payload`: nil for a request that only reads (POST-as-GET). nil: OpenSSL can't sign.
  package static func body(
    _ payload: String?, url: String, nonce: String, signer: Signer, key: JSONWebKey
  ) -> String? {
    let identity: (name: String, text: String) =
      switch signer {
      case .newAccount: ("jwk", key.publicText)
      case .account(let url): ("kid", quoted(url))
      }
    let header =
      "{\"alg\":\"\(key.algorithm.rawValue)\",\"\(identity.name)\":\(identity.text),\"nonce\":\(quoted(nonce)),"
      + "\"url\":\(quoted(url))}"
    return flattened(header, payload ?? "") { key.sign($0) }
  }

  /// Returns the externalAccountBinding of a new account (RFC 8555 §7.3.4).
  static func binding(_ account: ExternalAccount, url: String, key: JSONWebKey) -> String? {
    let header = "{\"alg\":\"HS256\",\"kid\":\(quoted(account.identifier)),\"url\":\(quoted(url))}"
    return flattened(header, key.publicText) { text in
      guard let mac = MACKey(.hmacSHA256, account.key) else { return nil }
      var running = mac.begin()
      text.withUnsafeBytes { running.add($0) }
      let code = running.finish()
      return code.isEmpty ? nil : code
    }
  }

  private static func flattened(
    _ header: String, _ payload: String, sign: ([UInt8]) -> [UInt8]?
  ) -> String? {
    let protected = Base64.encodeURL(Array(header.utf8)), body = Base64.encodeURL(Array(payload.utf8))
    guard let signature = sign(Array("\(protected).\(body)".utf8)) else { return nil }
    return "{\"protected\":\"\(protected)\",\"payload\":\"\(body)\",\"signature\":\"\(Base64.encodeURL(signature))\"}"
  }

  static func quoted(_ text: String) -> String {
    var json = JSONText()
    json.value(text)
    return json.text
  }
}

/// An account that the CA knows from elsewhere, to which a new ACME account is bound (`external_account_key`).
package struct ExternalAccount: Sendable {
  package let identifier: String
  package let key: SecretBytes
  package init(identifier: String, key: SecretBytes) {
    self.identifier = identifier
    self.key = key
  }
}

extension ExternalAccount {
  /// `file`: the key as base64url, as CAs give it (RFC 8555 §7.3.4), perhaps padded and with blanks around it. nil: no key.
  package init?(identifier: String, file: SecretBytes) {
    let text = file.withUnsafeBytes { bytes in
      String(decoding: bytes.filter { $0 > 0x20 && $0 != UInt8(ascii: "=") }, as: UTF8.self)
    }
    guard let key = try? Base64.decodeURL(text), !key.isEmpty else { return nil }
    self.init(identifier: identifier, key: SecretBytes(key))
  }
}
