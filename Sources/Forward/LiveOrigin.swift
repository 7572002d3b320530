import Bytes
import Crypto
import Observability
import TLS
package import Traffic
package import Transport

/// How the connections of a `proxy_pass` begin, in one worker.
package struct LiveOrigin {
  private let settings: OriginSettings
  private let local: CompiledTemplate?
  /// nil: no connection can be made.
  private let base: ConnectionOrigin?
  /// The origin that all requests share; nil if a request has a say in it.
  let settled: ConnectionOrigin?

  package init(_ settings: OriginSettings, _ generation: Generation) {
    self.settings = settings
    local = settings.local.map(\.compiled)
    base = settings.base(in: generation)
    settled = settings.local == nil && settings.header == nil ? base : nil
  }

  /// Whether a connection tells of one client, so that no other one may use it.
  var isOfOneClient: Bool { settings.header != nil }

  /// The origin of a connection; nil if the proxy that it is to go through isn't known, or `proxy_bind` came to a text
  /// that is no address. nginx would connect from another address then, of which the upstream may think more.
  package func make(for transaction: Transaction) -> ConnectionOrigin? {
    if let settled { return settled }
    guard var origin = base else {
      transaction.log(.error, "the proxy in front of the upstream isn't known, so nothing goes to the upstream")
      return nil
    }
    if let local {
      let text = local.bytes(transaction)
      if !text.isEmpty {
        guard let address = SocketAddress(binding: String(decoding: text, as: UTF8.self)) else {
          transaction.log(.error, "invalid local address \"\(LogEscape.text(text))\" in \"proxy_bind\"")
          return nil
        }
        origin.local = address
      }
    }
    if let form = settings.header { origin.header = ClientHeader.make(form, for: transaction) }
    return origin
  }
}

extension SocketAddress {
  /// An address with or without a port, as `proxy_bind` takes it: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
  /// `[2001:db8::1]`, `[2001:db8::1]:80`. nil for any other text.
  package init?(binding text: String) {
    let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
    let bytes = Array((isBracketed ? String(text.dropFirst().dropLast()) : text).utf8)
    guard let address = bytes.withUnsafeBytes({ SocketAddress(forwarded: $0) }) else { return nil }
    if isBracketed {
      guard case .ipv6(_, _, port: 0) = address else { return nil }
    }
    self = address
  }
}

/// The header of the PROXY protocol for the client of an exchange (`proxy_protocol`).
///
/// The client's address is that of `$remote_addr`, after `set_real_ip_from`, as with nginx's stream module. Version 2
/// also tells what TLS knows of the client. What a certificate says is told of a verified client only, and of a client for
/// which only a pin vouches the key's hash alone.
enum ClientHeader {
  // PP2_SUBTYPE_SSL_VERSION, _CN and _CIPHER.
  private static let version: UInt8 = 0x21, commonName: UInt8 = 0x22, cipher: UInt8 = 0x23
  /// PP2_TYPE_MIN_CUSTOM: the SHA-256 hash of the certificate's public key (32 bytes), and the next one, the certificate
  /// (DER).
  static let publicKeyHash: UInt8 = 0xE0, certificate: UInt8 = 0xE1

  static func make(_ form: ProxyHeaderForm, for transaction: Transaction) -> [UInt8] {
    let (client, own) = (transaction.clientAddress, transaction.facts.local)
    switch form {
    case .version1: return ProxyHeaderWriter.version1(source: client, destination: own)
    case .version2(let hasCertificate):
      let (tls, extensions) = transaction.facts.headerFacts(hasCertificate: hasCertificate)
      return ProxyHeaderWriter.version2(source: client, destination: own, tls: tls, extensions: extensions)
    }
  }

  /// `leaf`: nil unless the client was verified.
  static func facts(
    _ tls: (version: String, cipher: String, isResumed: Bool),
    _ leaf: (commonName: [UInt8], hash: [UInt8], der: [UInt8])?
  ) -> (ProxyHeaderWriter.ClientSecurity, [ProxyHeaderWriter.Extension]) {
    typealias Extension = ProxyHeaderWriter.Extension
    var details = [Extension(version, Array(tls.version.utf8))]
    var others: [Extension] = []
    if let leaf {
      if !leaf.commonName.isEmpty { details.append(Extension(commonName, leaf.commonName)) }
      others.append(Extension(publicKeyHash, leaf.hash))
      if !leaf.der.isEmpty { others.append(Extension(certificate, leaf.der)) }
    }
    details.append(Extension(cipher, Array(tls.cipher.utf8)))
    let proof: ProxyHeaderWriter.ClientSecurity.Proof =
      leaf == nil ? .unverified : .verified(isOfSession: tls.isResumed)
    return (ProxyHeaderWriter.ClientSecurity(proof: proof, details: details), others)
  }
}

extension ConnectionFacts {
  /// What version 2 of the PROXY protocol says of the client's TLS; nothing for a plain connection.
  func headerFacts(
    hasCertificate: Bool
  ) -> (ProxyHeaderWriter.ClientSecurity?, [ProxyHeaderWriter.Extension]) {
    guard let tls else { return (nil, []) }
    let shown = (version: tls.protocolName, cipher: tls.cipherName, isResumed: tls.isResumed)
    switch clientVerdict {
    case nil, .absent, .unverified, .refused: return ClientHeader.facts(shown, nil)
    case .pinned(let leaf): return ClientHeader.facts(shown, ([], leaf.spkiSHA256, []))
    case .verified(let chain):
      let name = CertificateVariable.ssl_client_s_dn_cn.value(of: chain.leaf, at: 0)
      return ClientHeader.facts(shown, (name, chain.leaf.spkiSHA256, hasCertificate ? chain.leaf.der : []))
    }
  }
}
