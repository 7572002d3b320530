import Bytes
import COpenSSL
import Crypto
import Glibc

/// OpenSSL's callbacks for tickets. OpenSSL calls through the context that the connection started with; the keys are
/// those of the chosen server block.
extension TLSStream {
  static let ticketKey:
    @convention(c) (
      OpaquePointer?, UnsafeMutablePointer<UInt8>?, UnsafeMutablePointer<UInt8>?, OpaquePointer?, OpaquePointer?, Int32
    ) -> Int32 = { ssl, name, iv, cipher, mac, seals in
      let failed: Int32 = -1, unknown: Int32 = 0, known: Int32 = 1, renew: Int32 = 2
      guard let ssl, let name, let iv, let cipher, let mac, let stream = TLSStream.of(ssl),
        let keys = stream.serverContext?.ticketKeys
      else { return failed }
      if seals == 1 {
        guard let key = keys.first, RAND_bytes(iv, EVP_MAX_IV_LENGTH) == 1 else { return failed }
        key.name.withUnsafeBytes {
          UnsafeMutableRawPointer(name).copyMemory(from: $0.baseAddress ?? .init(name), byteCount: 16)
        }
        return key.use(cipher, mac, iv: iv, seals: true) ? known : failed
      }
      guard let index = keys.firstIndex(where: { $0.hasName(name) }) else { return unknown }
      guard keys[index].use(cipher, mac, iv: iv, seals: false) else { return failed }
      return index == 0 ? known : renew
    }

  /// SSL_CTX_set_session_ticket_cb: adds to the ticket what the server must know besides the session, because the
  /// server stores nothing for it.
  static let sealTicket: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, _ in
    guard let ssl, let stream = TLSStream.of(ssl), let context = stream.serverContext else { return 1 }
    // OpenSSL would tell the client the whole lifetime again. A session that has no time left is never resumed; its
    // ticket says one second, because 0 is OpenSSL's word for a ticket without a hint.
    if stream.isResumed, let proof = stream.foundOrigin?.proof {
      let rest = proof.remaining(of: context.settings.sessionTimeout, at: stream.moment)
      SSL_SESSION_set_timeout(SSL_get_session(ssl), max(1, rest))
    }
    guard !context.ticketKeys.isEmpty,
      // A ticket without a note can't be resumed: that of a refused client, or of a client whose chain is too long for
      // a ticket.
      stream.leavesSession(ssl, context), let origin = stream.sessionOrigin(ssl, context),
      let note = TicketNote(origin)
    else { return 1 }
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), note.bytes, note.bytes.count)
  }

  static let openTicket:
    @convention(c) (
      OpaquePointer?, OpaquePointer?, UnsafePointer<UInt8>?, Int, SSL_TICKET_STATUS, UnsafeMutableRawPointer?
    ) -> SSL_TICKET_RETURN = { ssl, session, _, _, status, _ in
      let ignored = SSL_TICKET_RETURN(SSL_TICKET_RETURN_IGNORE_RENEW)
      guard status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW, let ssl, let session,
        let stream = TLSStream.of(ssl), let context = stream.serverContext,
        let origin = TicketNote.read(session)
      else { return ignored }
      let now = stream.moment
      guard origin.proof.remaining(of: context.settings.sessionTimeout, at: now) > 0 else { return ignored }
      // A TLS 1.2 session may be resumed only under the name it was made for (RFC 6066 §3). Where the name chooses the
      // certificate, so may a TLS 1.3 session.
      let isOfName =
        SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION && context.names == nil
        || origin.serverName == stream.serverName
      guard isOfName, [origin.judgementEnd, context.revocationsEnd].allSatisfy({ $0.map { $0 > now.time } ?? true }),
        stream.clientPolicy?.denial(of: origin.client) == nil
      else { return ignored }
      stream.foundOrigin = origin
      return SSL_TICKET_RETURN(
        status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW)
    }
}

/// Encodes a session's origin for a ticket, which holds what SessionStore would remember.
///
/// The layout is: an octet with the layout's number, eight octets of `judgementEnd`, eight octets of the proof's time, a
/// length-prefixed server name, then the number of certificates above the leaf or `noChain` or `pinned`, then these
/// certificates, each length-prefixed. The leaf itself is in the session.
struct TicketNote {
  let bytes: [UInt8]

  /// The most octets of a chain: a ticket travels in a ClientHello.
  private static let chainLimit = 16 * 1024
  /// Nothing verified the client.
  private static let noChain: UInt8 = 255
  /// A pin alone vouches for the leaf.
  private static let pinned: UInt8 = 254
  /// Changes with the layout, so that no release misreads another's note. The first layout had no such octet, and began
  /// with 0 or 127.
  private static let layout: UInt8 = 3
  /// Encodes a nil `judgementEnd`.
  private static let noEnd = Int64.max

  /// Returns nil when the origin is too large for a ticket.
  init?(_ origin: SessionStore.Origin) {
    let serverName = origin.serverName
    guard serverName.count < 256 else { return nil }
    func octets(_ number: Int64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
    var bytes = [Self.layout] + octets(origin.judgementEnd ?? Self.noEnd) + octets(origin.proof.time)
    bytes.append(UInt8(serverName.count))
    bytes += serverName
    switch origin.client {
    case nil: bytes.append(Self.noChain)
    case .pin: bytes.append(Self.pinned)
    case .chain(let chain):
      let others = chain.others.map(\.der)
      guard others.count < Int(Self.pinned), others.reduce(0, { $0 + $1.count }) <= Self.chainLimit else { return nil }
      bytes.append(UInt8(others.count))
      for der in others {
        bytes += [UInt8(der.count >> 16), UInt8(der.count >> 8 & 255), UInt8(der.count & 255)] + der
      }
    }
    self.bytes = bytes
  }

  static func read(_ session: OpaquePointer) -> SessionStore.Origin? {
    var data: UnsafeMutableRawPointer?
    var count = 0
    guard SSL_SESSION_get0_ticket_appdata(session, &data, &count) == 1, let data else { return nil }
    let leaf = SSL_SESSION_get0_peer(session).map { Certificate(retaining: $0) }
    return read(UnsafeRawBufferPointer(start: data, count: count), leaf: leaf)
  }

  /// Returns nil unless the note parses to its last octet.
  static func read(_ bytes: UnsafeRawBufferPointer, leaf: Certificate?) -> SessionStore.Origin? {
    var rest = bytes[...]
    func take(_ count: Int) -> Slice<UnsafeRawBufferPointer>? {
      guard rest.count >= count else { return nil }
      defer { rest = rest.dropFirst(count) }
      return rest.prefix(count)
    }
    func number() -> Int64? { take(8)?.reduce(Int64(0), { $0 << 8 | Int64($1) }) }
    guard take(1)?.first == layout, let end = number(), let proven = number(), let length = take(1)?.first,
      let name = take(Int(length)), let number = take(1)?.first
    else { return nil }
    var client: VerifiedClient?
    if number == pinned {
      guard let leaf else { return nil }
      client = .pin(leaf)
    } else if number != noChain {
      guard let leaf else { return nil }
      var others: [Certificate] = []
      for _ in 0..<number {
        guard let size = take(3)?.reduce(0, { $0 << 8 | Int($1) }), let der = take(size),
          let certificate = try? Certificate(der: Array(der))
        else { return nil }
        others.append(certificate)
      }
      client = .chain(VerifiedChain(leaf: leaf, others: others))
    }
    guard rest.isEmpty else { return nil }
    return SessionStore.Origin(
      client: client, judgementEnd: end == noEnd ? nil : end, serverName: Array(name),
      proof: KeyProof(time: proven))
  }
}
