import Bytes
import Crypto
import Glibc
import Observability
import TLS
import Transport

/// What stays the same as long as a connection lives: who is at the other end, and what TLS says of it.
///
/// Values are made when a template first asks and kept, so that a request copies bytes and asks OpenSSL nothing.
final class ConnectionFacts {
  let number: UInt64
  let peer: SocketAddress
  let openedAt: UInt64
  let tls: TLSStream?
  var standing = ClientStanding()
  private let stream: ByteStream
  private var values: [[UInt8]?]

  init(number: UInt64, peer: SocketAddress, stream: ByteStream) {
    self.number = number
    self.peer = peer
    self.stream = stream
    self.tls = stream as? TLSStream
    self.openedAt = stream.loop.now
    self.values = []
  }

  /// Asked of the kernel each time, since few templates want it; nil once the connection is closed.
  var local: SocketAddress? { stream.isClosed ? nil : Sockets.localAddress(of: stream.descriptor) }

  /// The client was judged anew.
  func forget() {
    standing = ClientStanding()
    values = []
  }

  private static let cached: [SimpleVariable] = [
    .connection, .pid, .hostname, .nginx_version, .server_addr, .server_port, .remote_addr, .remote_port,
    .binary_remote_addr, .realip_remote_addr, .realip_remote_port, .pipe, .ssl_protocol, .ssl_cipher, .ssl_ciphers,
    .ssl_curve, .ssl_curves, .ssl_server_name, .ssl_session_id, .ssl_session_reused,
    .ssl_alpn_protocol, .ssl_client_verify, .ssl_client_cert, .ssl_client_raw_cert, .ssl_client_escaped_cert,
    .ssl_client_s_dn, .ssl_client_i_dn, .ssl_client_s_dn_legacy, .ssl_client_i_dn_legacy, .ssl_client_serial,
    .ssl_client_fingerprint, .ssl_client_v_start, .ssl_client_v_end, .ssl_client_s_dn_cn, .ssl_client_san_dns,
    .ssl_client_san_uri, .ssl_client_san_email, .ssl_client_san_ip, .ssl_client_spki, .https, .scheme,
  ]
  private static let places = Dictionary(uniqueKeysWithValues: cached.enumerated().map { ($1, $0) })

  /// Where a variable's value is kept; nil for those that differ from request to request. For load time.
  static func place(of variable: SimpleVariable) -> Int? { places[variable] }

  func append(_ variable: SimpleVariable, place: Int, to output: inout ByteBuffer) {
    if values.isEmpty { values = Array(repeating: nil, count: Self.cached.count) }
    if let value = values[place] { return output.append(value) }
    let value = make(variable)
    values[place] = value
    output.append(value)
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
    case .binary_remote_addr: binaryPeer
    case .pipe: [0x2E]
    case .https: tls == nil ? [] : Array("on".utf8)
    case .scheme: Array((tls == nil ? "http" : "https").utf8)
    default: tls.map { Self.make(variable, $0) } ?? []
    }
  }

  private static let hostname: [UInt8] = {
    var name = [CChar](repeating: 0, count: 256)
    gethostname(&name, name.count - 1)
    return name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
  }()

  private var binaryPeer: [UInt8] {
    switch peer {
    case .ipv4(let address, _): withUnsafeBytes(of: address.bigEndian) { Array($0) }
    case .ipv6(let high, let low, _):
      withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
    case .unix: Array("unix:".utf8)
    }
  }

  private static func make(_ variable: SimpleVariable, _ tls: TLSStream) -> [UInt8] {
    switch variable {
    case .ssl_protocol: Array(tls.protocolName.utf8)
    case .ssl_cipher: Array(tls.cipherName.utf8)
    case .ssl_ciphers: Array(tls.clientCiphers.utf8)
    case .ssl_curve, .ssl_curves: Array(tls.groupName.utf8)
    case .ssl_server_name: tls.serverName
    case .ssl_session_id: Array(tls.sessionID.utf8)
    case .ssl_session_reused: Array((tls.isResumed ? "r" : ".").utf8)
    case .ssl_alpn_protocol: Array(tls.applicationProtocol.utf8)
    case .ssl_client_verify: Array(verifyText(tls.clientVerdict).utf8)
    default: tls.clientVerdict.certificate.map { make(variable, $0) } ?? []
    }
  }

  /// nginx's: NONE, SUCCESS or FAILED:reason.
  private static func verifyText(_ verdict: ClientVerdict) -> String {
    switch verdict {
    case .absent: "NONE"
    case .verified: "SUCCESS"
    case .unverified(_, let reason), .refused(_, _, let reason): "FAILED:\(reason)"
    }
  }

  private static func make(_ variable: SimpleVariable, _ certificate: Certificate) -> [UInt8] {
    switch variable {
    case .ssl_client_raw_cert: Array(certificate.pem.utf8)
    case .ssl_client_cert: tabbed(certificate.pem)
    case .ssl_client_escaped_cert: escaped(certificate.pem)
    case .ssl_client_s_dn: Array(certificate.subject.rfc2253.utf8)
    case .ssl_client_i_dn: Array(certificate.issuer.rfc2253.utf8)
    case .ssl_client_s_dn_legacy: Array(certificate.subject.legacy.utf8)
    case .ssl_client_i_dn_legacy: Array(certificate.issuer.legacy.utf8)
    case .ssl_client_serial: Array(certificate.serial.utf8)
    case .ssl_client_fingerprint: Array(certificate.sha1Fingerprint.utf8)
    case .ssl_client_v_start: Array(certificate.notBeforeText.utf8)
    case .ssl_client_v_end: Array(certificate.notAfterText.utf8)
    case .ssl_client_v_remain: Array("\(max(0, (certificate.notAfter - Int64(time(nil))) / 86400))".utf8)
    case .ssl_client_s_dn_cn: certificate.subject.commonNames.last.map { clean([$0]) } ?? []
    case .ssl_client_san_dns: clean(certificate.subjectAltNames.dns.map(\.bytes))
    case .ssl_client_san_uri: clean(certificate.subjectAltNames.uris.map(\.bytes))
    case .ssl_client_san_email: clean(certificate.subjectAltNames.emails.map(\.bytes))
    case .ssl_client_san_ip: Array(certificate.subjectAltNames.ips.map(\.description).joined(separator: ",").utf8)
    case .ssl_client_spki: Array(Base64.encode(certificate.spkiSHA256).utf8)
    default: []
    }
  }

  /// Changes with the clock, so it is not kept.
  var remainingDays: [UInt8] {
    tls?.clientVerdict.certificate.map { Self.make(.ssl_client_v_remain, $0) } ?? []
  }

  /// Several values with a comma between. One with a control character or a comma in it would read as something else
  /// than it is: then there is no value at all.
  private static func clean(_ values: [[UInt8]]) -> [UInt8] {
    for value in values where value.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == 0x2C }) { return [] }
    return Array(values.joined(separator: [0x2C]))
  }

  /// $ssl_client_cert: every line but the first begins with a tab, as nginx has it; no line end at the end.
  private static func tabbed(_ pem: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for byte in pem.utf8 {
      bytes.append(byte)
      if byte == 0x0A { bytes.append(0x09) }
    }
    while let last = bytes.last, last == 0x09 || last == 0x0A { bytes.removeLast() }
    return bytes
  }

  /// $ssl_client_escaped_cert: percent-encoded as nginx's NGX_ESCAPE_URI_COMPONENT.
  private static func escaped(_ pem: String) -> [UInt8] {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes: [UInt8] = []
    for byte in pem.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: bytes.append(byte)
      default: bytes += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return bytes
  }
}
