package import Bytes
package import Crypto
import Glibc
package import HTTP
package import Identity
import Observability
package import Patterns
package import TLS
package import Transport
package import UpstreamAuth

/// A value within `ConnectionFacts`, and whether no log has to escape it.
private struct KeptValue {
  var range: ByteRange
  var isPlain: Bool
}

/// The runs of the access log's line that was last written, as they stand in a line.
struct KeptRuns: ~Copyable {
  /// Held, so that no other line gets its identity.
  var line: AnyObject?
  var text = ByteBuffer()
  /// nil: not used yet.
  var ranges: [ByteRange?] = []
}

/// What stays the same for the life of a connection: the peer's address, the TLS session and the client's identity.
///
/// The first use of a value makes and keeps it, so that later requests copy bytes and don't call OpenSSL.
package final class ConnectionFacts {
  package let number: UInt64
  package let peer: SocketAddress
  package let openedAt: UInt64
  /// What `listen … proxy_protocol` has read; nil without it, and if the header names no client (LOCAL, UNKNOWN).
  package var proxyHeader: ProxyHeader?
  /// The transport again if it has TLS, otherwise nil.
  package private(set) var tls: TLSStream?
  /// Whom a trusted front has sent the request for; nil: the connection's peer is the client.
  package let relayed: RelayedClient?
  /// From when on the client whom a front has sent is to be judged again, in seconds since 1970; `.max`: never.
  var relayedEnd = Int64.max
  private var authorization = AuthorizationCache()
  private let transport: ByteStream
  /// The values that were used, one after another, and each by its place.
  private var values = ByteBuffer()
  private var kept: [KeptValue?] = []
  var lines = KeptRuns()

  /// `tls`: the transport again if it has TLS, otherwise nil.
  package init(number: UInt64, peer: SocketAddress, transport: ByteStream, tls: TLSStream?) {
    self.number = number
    self.peer = peer
    self.transport = transport
    self.tls = tls
    self.openedAt = transport.loop.now
    self.relayed = nil
  }

  /// The facts of one request of a connection that carries the requests of many clients. What they say of the client, they
  /// say of `relayed`, and not of the connection's peer.
  package init(of connection: ConnectionFacts, for relayed: RelayedClient) {
    number = connection.number
    peer = connection.peer
    openedAt = connection.openedAt
    proxyHeader = connection.proxyHeader
    tls = connection.tls
    transport = connection.transport
    rehearsedLocal = connection.rehearsedLocal
    self.relayed = relayed
    relayedEnd = relayed.judgementEnd
  }

  /// The local address; nil after the connection is closed. Each call asks the kernel, because few templates need it.
  package var local: SocketAddress? {
    rehearsedLocal ?? (transport.isClosed ? nil : Sockets.localAddress(of: transport.descriptor))
  }
  /// The address of the listener that `sallyport check --explain` assumes.
  var rehearsedLocal: SocketAddress?

  package var isTLS: Bool { tls != nil }

  /// A value of `$tcpinfo_…`, which the kernel tells anew at each use; nil without TCP, and after the connection is closed.
  func transportValue(_ variable: SimpleVariable) -> UInt32? {
    guard !transport.isClosed, let state = Sockets.tcpState(of: transport.descriptor) else { return nil }
    return switch variable {
    case .tcpinfo_rtt: state.roundTrip
    case .tcpinfo_rttvar: state.roundTripVariance
    case .tcpinfo_snd_cwnd: state.congestionWindow
    case .tcpinfo_rcv_space: state.receiveSpace
    default: nil
    }
  }

  /// What was judged of the client; nil: nothing, on a connection without TLS.
  package var clientVerdict: ClientVerdict? { relayed.map { $0.verdict } ?? tls?.clientVerdict }

  /// The certificate that the client showed, verified or not, for the error log; empty without one.
  var loggedClient: String { clientVerdict?.certificate?.loggedIdentity ?? "" }

  // MARK: Authorization

  /// The access rules that last admitted the client.
  var admittedBy: ObjectIdentifier? { authorization.admittedBy }

  /// The verdict of access rules on the client.
  package func judge(by rules: ClientRules, scratch: RegularExpression.Scratch) -> ClientRules.Decision {
    authorization.judge(by: rules, client, scratch: scratch)
  }

  /// Finds the client's user in this file.
  package func choose(from file: UserFile, scratch: RegularExpression.Scratch) -> UserFile.Choice {
    authorization.choose(from: file, client, scratch: scratch)
  }

  /// The client as rules judge it.
  private var client: ClientRules.Client {
    if let relayed, relayed.isUnreadable { return .refused }
    return clientVerdict.map { ClientRules.Client($0) } ?? .anonymous
  }

  /// The client's chain; nil unless it was verified. A client for which only a pin vouches has none.
  package var verifiedChain: VerifiedChain? { if case .verified(let chain)? = clientVerdict { chain } else { nil } }

  /// Whether the client's certificate counts, by a chain or by a pin.
  package var isVerified: Bool { clientVerdict?.isVerified ?? false }

  /// The fields of `client_identity`. Of a client behind a front, none says which server it spoke to: that was the front.
  package func identityFields(_ form: IdentityFieldForm) -> FieldBlock {
    let server = relayed == nil ? tls?.serverContext?.identifyingCertificates : nil
    return authorization.fields(form, verifiedChain, server: server ?? [])
  }

  /// The connection has turned out to be one without TLS.
  func forgetTLS() {
    tls = nil
    forget()
  }

  /// Clears all values after the client was verified again.
  package func forget() {
    authorization = AuthorizationCache()
    values.release()
    kept = []
    lines = KeptRuns()
  }

  private static let cached: [SimpleVariable] = [
    .connection, .pid, .hostname, .nginx_version, .server_addr, .server_port, .remote_addr, .remote_port,
    .binary_remote_addr, .realip_remote_addr, .realip_remote_port, .proxy_protocol_addr, .proxy_protocol_port,
    .proxy_protocol_server_addr, .proxy_protocol_server_port, .ssl_protocol, .ssl_cipher, .ssl_ciphers,
    .ssl_curve, .ssl_curves, .ssl_post_quantum, .ssl_server_name, .ssl_session_id, .ssl_session_reused,
    .ssl_alpn_protocol, .ssl_sigalg, .ssl_sigalgs, .ssl_client_sigalg, .ssl_client_verify, .ssl_client_cert,
    .ssl_client_raw_cert, .ssl_client_escaped_cert,
    .ssl_client_s_dn, .ssl_client_i_dn, .ssl_client_s_dn_legacy, .ssl_client_i_dn_legacy, .ssl_client_serial,
    .ssl_client_fingerprint, .ssl_client_v_start, .ssl_client_v_end, .ssl_client_s_dn_cn, .ssl_client_san_dns,
    .ssl_client_san_uri, .ssl_client_san_email, .ssl_client_san_ip, .ssl_client_spki, .https, .scheme,
  ]
  private static let places = Dictionary(cached.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })

  /// The slot that caches a variable's value; nil for a variable that differs per request. Used when loading.
  package static func place(of variable: SimpleVariable) -> Int? { places[variable] }

  /// Returns whether no log has to escape the value.
  package func append(_ variable: SimpleVariable, place: Int, to output: inout ByteBuffer) -> Bool {
    if kept.isEmpty { kept = Array(repeating: nil, count: Self.cached.count) }
    if let value = kept[place] {
      output.append(values.readable[value.range])
      return value.isPlain
    }
    let value = make(variable), isPlain = value.withUnsafeBytes { LogEscape.isPlain($0) }
    kept[place] = KeptValue(range: ByteRange(start: values.count, count: value.count), isPlain: isPlain)
    values.append(value)
    output.append(value)
    return isPlain
  }

  private func make(_ variable: SimpleVariable) -> [UInt8] {
    switch variable {
    case .connection: Array("\(number)".utf8)
    case .pid: Array("\(getpid())".utf8)
    case .hostname: Self.hostname
    case .nginx_version: Array(Product.version.description.utf8)
    case .server_addr: Array((local?.host ?? "").utf8)
    case .server_port: Array((local?.port).map { "\($0)" }?.utf8 ?? "".utf8)
    case .remote_addr, .realip_remote_addr: Array(peer.host.utf8)
    case .remote_port, .realip_remote_port: Array(peer.port.map { "\($0)" }?.utf8 ?? "".utf8)
    case .proxy_protocol_addr: proxyHeader?.sourceText ?? []
    case .proxy_protocol_server_addr: proxyHeader?.destinationText ?? []
    case .proxy_protocol_port: Self.portText(proxyHeader?.source)
    case .proxy_protocol_server_port: Self.portText(proxyHeader?.destination)
    case .binary_remote_addr: peer.binary
    case .https: tls == nil ? [] : Array("on".utf8)
    case .scheme: Array((tls == nil ? "http" : "https").utf8)
    case .ssl_client_verify: Array(verifyText.utf8)
    // The front has seen it, and it is of no handshake of this process.
    case .ssl_client_sigalg where relayed != nil: []
    default: tls.flatMap { Self.make(variable, $0) } ?? clientValue(variable)
    }
  }

  /// The value of a variable about the client's certificate.
  private func clientValue(_ variable: SimpleVariable) -> [UInt8] {
    CertificateVariable(rawValue: variable.rawValue).flatMap { property in
      shownCertificate(for: property).map { property.value(of: $0, at: Int64(time(nil))) }
    } ?? []
  }

  /// A port that is not 0, as text.
  private static func portText(_ address: SocketAddress?) -> [UInt8] {
    address?.port.flatMap { $0 > 0 ? Array("\($0)".utf8) : nil } ?? []
  }

  private static let hostname: [UInt8] = {
    var name = [CChar](repeating: 0, count: 256)
    gethostname(&name, name.count - 1)
    return name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
  }()

  /// nil: the variable is not about the session.
  private static func make(_ variable: SimpleVariable, _ tls: TLSStream) -> [UInt8]? {
    switch variable {
    case .ssl_protocol: Array(tls.protocolName.utf8)
    case .ssl_cipher: Array(tls.cipherName.utf8)
    case .ssl_ciphers: Array(tls.clientCiphers.utf8)
    case .ssl_curve: Array(tls.groupName.utf8)
    case .ssl_post_quantum: Array((tls.keyExchange.isPostQuantum ? "yes" : "no").utf8)
    case .ssl_curves: Array(tls.clientGroupNames.utf8)
    case .ssl_server_name: tls.serverName
    case .ssl_session_id: Array(tls.sessionID.utf8)
    case .ssl_session_reused: Array((tls.isResumed ? "r" : ".").utf8)
    case .ssl_alpn_protocol: Array(tls.applicationProtocol.utf8)
    case .ssl_sigalg: Array(tls.signatureScheme.utf8)
    case .ssl_sigalgs: Array(tls.clientSignatureSchemes.utf8)
    case .ssl_client_sigalg: Array(tls.peerSignatureScheme.utf8)
    default: nil
    }
  }

  /// Whether the client has shown a certificate, verified or not.
  package var hasClientCertificate: Bool { clientVerdict?.certificate != nil }

  /// Formats the verdict as nginx does: NONE, SUCCESS or FAILED:reason; empty without TLS.
  private var verifyText: String {
    if let relayed, relayed.isUnreadable { return "FAILED:unreadable" }
    return switch clientVerdict {
    case nil: ""
    case .absent: "NONE"
    case .verified, .pinned: "SUCCESS"
    case .unverified(_, let reason), .refused(_, _, let reason, _): "FAILED:\(reason)"
    }
  }

  /// The certificate of which a variable tells. Under `ssl_verify_report_only` it must have verified: elsewhere on the
  /// server, an upstream may take a name in `$ssl_client_s_dn` for one that was verified. For the same reason, a client for
  /// which only a pin vouches has the variables that are hashes and no other: $ssl_client_verify is SUCCESS, and who has the
  /// pinned key can write any name into a certificate.
  ///
  /// nil: the client has shown none, or none that counts for it.
  package func shownCertificate(for variable: CertificateVariable) -> Certificate? {
    switch clientVerdict {
    case nil, .absent: nil
    case .verified(let chain): chain.leaf
    case .pinned(let leaf): variable.isHash ? leaf : nil
    case .unverified(let leaf, _), .refused(let leaf, _, _, _): reportsOnly ? nil : leaf
    }
  }

  /// Whether `ssl_verify_report_only` applies to the client.
  package var reportsOnly: Bool { relayed?.reportsOnly ?? (tls?.serverContext?.settings.rejection == .reportOnly) }
}

extension SocketAddress {
  /// 4 or 16 bytes in network order; `unix:` for a unix socket.
  package var binary: [UInt8] {
    switch self {
    case .ipv4(let address, _): withUnsafeBytes(of: address.bigEndian) { Array($0) }
    case .ipv6(let high, let low, _):
      withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
    case .unix, .name: Array("unix:".utf8)
    }
  }
}
