import COpenSSL
package import Crypto
import Synchronization

/// The certificates that answer tls-alpn-01 challenges of ACME (RFC 8737), by the server name of the handshake.
///
/// A handshake that offers `acme-tls/1` alone, for a name with a challenge, gets such a certificate: it is asked for no
/// certificate of its own, resumes nothing, and its connection ends when it is over. For all other handshakes nothing
/// changes. All workers share one object, which outlives generations.
package final class ChallengeCertificates: Sendable {
  /// One SSL_CTX.
  // @unchecked: an SSL_CTX may be used by several threads once it is set up, and nothing is set after `init`.
  final class Context: @unchecked Sendable {
    private let handle: OpaquePointer

    fileprivate init(_ pair: CertifiedKey) throws(TLSSettingsError) {
      let handle = try ContextBasics.make(server: true, commands: [], keys: [pair.key])
      self.handle = handle
      // RFC 8737 §3: TLS 1.2 or later.
      try ContextBasics.setVersions(.standard, on: handle)
      try ContextBasics.use(pair, on: handle)
      SSL_CTX_set_options(handle, COPENSSL_OP_NO_TICKET)
      _ = copenssl_ctx_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
      SSL_CTX_set_alpn_select_cb(handle, ApplicationProtocol.chooseChallenge, nil)
    }

    deinit { SSL_CTX_free(handle) }

    /// Has the handshake present this certificate and no other, ask for none, and resume nothing. Returns false when
    /// OpenSSL can't.
    func adopt(_ ssl: OpaquePointer) -> Bool {
      guard SSL_set_SSL_CTX(ssl, handle) != nil else { return false }
      SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
      SSL_set_options(ssl, COPENSSL_OP_NO_TICKET)
      _ = SSL_set_num_tickets(ssl, 0)
      SSL_set_max_early_data(ssl, 0)
      _ = copenssl_set_min_proto(ssl, TLS1_2_VERSION)
      _ = copenssl_set_max_proto(ssl, TLS1_3_VERSION)
      // No session of a server block has it, so that none is resumed here, nor one of here elsewhere.
      let own = Array("acme-tls/1".utf8)
      return SSL_set_session_id_context(ssl, own, UInt32(own.count)) == 1
    }
  }

  private struct Entry: Sendable {
    var owner: UInt64
    var context: Context
  }

  private let entries = Mutex<[[UInt8]: Entry]>([:])
  private let hasEntries = Atomic(false)

  package init() {}

  /// Adds certificates by server name, lower case. `owner`: who removes them.
  package func add(_ certificates: [(serverName: String, pair: CertifiedKey)], owner: UInt64) throws(TLSSettingsError) {
    var added: [[UInt8]: Entry] = [:]
    for (name, pair) in certificates { added[Array(name.utf8)] = Entry(owner: owner, context: try Context(pair)) }
    entries.withLock { $0.merge(added) { _, new in new } }
    hasEntries.store(true, ordering: .releasing)
  }

  /// Removes what this owner has added.
  package func remove(owner: UInt64) {
    let isEmpty = entries.withLock { entries in
      entries = entries.filter { $0.value.owner != owner }
      return entries.isEmpty
    }
    if isEmpty { hasEntries.store(false, ordering: .releasing) }
  }

  /// The context of a challenge; nil unless the ClientHello asks for `acme-tls/1` alone and the name has a challenge.
  func context(for name: [UInt8], _ ssl: OpaquePointer) -> Context? {
    guard hasEntries.load(ordering: .acquiring), ApplicationProtocol.asksForChallengeAlone(ssl) else { return nil }
    return entries.withLock { $0[name]?.context }
  }
}

extension ApplicationProtocol {
  /// Whether ALPN has `acme-tls/1` and no other name (RFC 8737 §3). Only for the callback of the ClientHello.
  static func asksForChallengeAlone(_ ssl: OpaquePointer) -> Bool {
    var start: UnsafePointer<UInt8>?
    var count = 0
    let type = UInt32(TLSEXT_TYPE_application_layer_protocol_negotiation)
    guard SSL_client_hello_get0_ext(ssl, type, &start, &count) == 1 else { return false }
    return UnsafeBufferPointer(start: start, count: count).elementsEqual([0, 11, 10] + Array("acme-tls/1".utf8))
  }

  static let chooseChallenge: Choice = { _, chosen, chosenCount, offered, offeredCount, _ in
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredCount))
    return ApplicationProtocol.take(place(of: "acme-tls/1", in: list), of: list, chosen, chosenCount)
  }
}
