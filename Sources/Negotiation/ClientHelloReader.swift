import Bytes

/// Reads the ClientHello from the first bytes of a connection (RFC 8446 §4.1.2, and TLS before it), for nginx's
/// `ssl_preread`. A total function of these bytes, in time linear to them. The caller bounds them.
///
/// A message in several records is put together (CVE-2026-32305). It is stricter than nginx's
/// ngx_stream_ssl_preread_module: a server that reads a hello in another way than this would see another name, so what
/// isn't well-formed, or has two names, is no hello.
public enum ClientHelloReader {
  public enum Outcome: Sendable, Equatable {
    /// The bytes so far may begin a ClientHello.
    case incomplete
    /// They don't, whatever follows; or the ClientHello is malformed.
    case notTLS
    case hello(ClientHelloFacts)
  }

  /// As `$ssl_preread_protocol` names a version; empty if unknown.
  public static func versionName(_ version: UInt16) -> String {
    switch version {
    case 0x0002: "SSLv2"
    case 0x0300: "SSLv3"
    case 0x0301: "TLSv1"
    case 0x0302: "TLSv1.1"
    case 0x0303: "TLSv1.2"
    case 0x0304: "TLSv1.3"
    default: ""
    }
  }

  public static func read(_ bytes: UnsafeRawBufferPointer) -> Outcome {
    guard let first = bytes.first else { return .incomplete }
    if first & 0x80 != 0 { return version2(bytes) }
    switch messageLength(bytes) {
    case .incomplete: return .incomplete
    case .broken: return .notTLS
    case .whole(let length):
      return message(bytes, length).withUnsafeBytes { facts($0) }.map { .hello($0) } ?? .notTLS
    }
  }

  /// The hello of SSLv2, which clients once sent for any version (RFC 5246 §E.2). As in nginx, only its version counts.
  private static func version2(_ bytes: UnsafeRawBufferPointer) -> Outcome {
    var cursor = ByteCursor(bytes)
    guard cursor.uint16() != nil, let type = cursor.uint8() else { return .incomplete }
    guard type == 1 else { return .notTLS }
    guard let major = cursor.uint8() else { return .incomplete }
    guard major == 0 || major == 3 else { return .notTLS }
    guard let minor = cursor.uint8() else { return .incomplete }
    let version = UInt16(major) << 8 | UInt16(minor)
    return .hello(ClientHelloFacts(serverName: [], protocols: [], version: version))
  }

  // MARK: Records

  private enum Length {
    case incomplete, broken
    /// All of the message has come; with its head of 4 bytes.
    case whole(Int)
  }

  /// Goes through the records, without a copy: a client may send its bytes one by one.
  private static func messageLength(_ bytes: UnsafeRawBufferPointer) -> Length {
    var cursor = ByteCursor(bytes)
    var head: UInt32 = 0
    var count = 0
    while true {
      // Each byte is judged as soon as it is there: in another protocol, the server may have to speak next.
      guard let type = cursor.uint8() else { return .incomplete }
      guard type == 0x16 else { return .broken }
      guard let major = cursor.uint8() else { return .incomplete }
      guard major == 3 else { return .broken }
      guard cursor.uint8() != nil, let length = cursor.uint16().map(Int.init) else { return .incomplete }
      // RFC 8446 §5.1: a part of a handshake isn't empty, and no record has more than 2^14 bytes.
      guard (1...0x4000).contains(length), let part = cursor.take(min(length, cursor.left)) else { return .broken }
      let before = count
      for byte in part.prefix(max(0, 4 - before)) { head = head << 8 | UInt32(byte) }
      count += part.count
      if before == 0, let type = part.first, type != 1 { return .broken }
      if count >= 4 {
        let whole = 4 + Int(head & 0xFF_FFFF)
        // Nothing follows a ClientHello in its record: the client waits for an answer (RFC 8446 §5.1).
        guard before + length <= whole else { return .broken }
        if count == whole { return .whole(whole) }
      }
      if part.count < length { return .incomplete }
    }
  }

  /// The parts of the records in a row, `length` bytes.
  private static func message(_ bytes: UnsafeRawBufferPointer, _ length: Int) -> [UInt8] {
    var cursor = ByteCursor(bytes)
    var message: [UInt8] = []
    message.reserveCapacity(length)
    while message.count < length, cursor.take(3) != nil, let part = cursor.list16() { message += part }
    return message
  }

  // MARK: The message

  private static func facts(_ message: UnsafeRawBufferPointer) -> ClientHelloFacts? {
    var cursor = ByteCursor(message)
    guard cursor.uint32() != nil, let version = cursor.uint16(), cursor.take(32) != nil, let session = cursor.list8(),
      session.count <= 32, let ciphers = cursor.list16(), ciphers.count % 2 == 0, cursor.list8() != nil
    else { return nil }
    var facts = ClientHelloFacts(serverName: [], protocols: [], version: version)
    // Before TLS 1.2, a hello could end here (RFC 5246 §7.4.1.2).
    guard !cursor.isAtEnd else { return facts }
    guard let extensions = cursor.list16(), cursor.isAtEnd else { return nil }
    cursor = ByteCursor(extensions)
    var seen: Set<UInt16> = []
    while !cursor.isAtEnd {
      guard let type = cursor.uint16(), let data = cursor.list16() else { return nil }
      // RFC 8446 §4.2: none stands twice. Only these are read, so only these are compared.
      switch type {
      case 0:
        guard seen.insert(type).inserted, let name = serverName(data) else { return nil }
        facts.serverName = name
      case 16:
        guard seen.insert(type).inserted, let protocols = protocols(data) else { return nil }
        facts.protocols = protocols
      case 43:
        guard seen.insert(type).inserted, let highest = highestVersion(data, else: version) else { return nil }
        facts.version = highest
      default: break
      }
    }
    return facts
  }

  /// RFC 6066 §3: a list, of one name only. nil: malformed, or a name that no host has, such as one with a NUL.
  private static func serverName(_ data: UnsafeRawBufferPointer) -> [UInt8]? {
    var cursor = ByteCursor(data)
    guard var list = cursor.list16().map({ ByteCursor($0) }), cursor.isAtEnd, list.uint8() == 0,
      let bytes = list.list16(), list.isAtEnd, bytes.count <= 255
    else { return nil }
    var name = bytes.map { ASCII.lower($0) }
    guard name.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }) else { return nil }
    if name.last == UInt8(ascii: ".") { name.removeLast() }
    return name.isEmpty ? nil : name
  }

  /// RFC 7301 §3.1: a list of names, none of them empty.
  private static func protocols(_ data: UnsafeRawBufferPointer) -> [[UInt8]]? {
    var cursor = ByteCursor(data)
    guard let list = cursor.list16(), cursor.isAtEnd, !list.isEmpty else { return nil }
    cursor = ByteCursor(list)
    var names: [[UInt8]] = []
    while !cursor.isAtEnd {
      guard let name = cursor.list8(), !name.isEmpty else { return nil }
      names.append(Array(name))
    }
    return names
  }

  /// RFC 8446 §4.2.1. The drafts of TLS 1.3 (0x7F and their number) count as TLS 1.3, and what is no version that has a
  /// name doesn't count: GREASE (RFC 8701), and versions to come. `legacy`: the version if none counts. nil: malformed.
  private static func highestVersion(_ data: UnsafeRawBufferPointer, else legacy: UInt16) -> UInt16? {
    var cursor = ByteCursor(data)
    guard let list = cursor.list8(), cursor.isAtEnd, !list.isEmpty, list.count % 2 == 0 else { return nil }
    cursor = ByteCursor(list)
    var highest: UInt16?
    while let version = cursor.uint16() {
      let known: UInt16 = version >> 8 == 0x7F ? 0x0304 : version
      if (0x0300...0x0304).contains(known) { highest = max(highest ?? 0, known) }
    }
    return highest ?? legacy
  }
}
