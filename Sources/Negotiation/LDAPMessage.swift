/// A message of LDAP (RFC 4511 §4.1.1), as far as the negotiation of TLS needs it. Valid as long as the bytes are.
///
/// BER as RFC 4511 §5.1 restricts it: definite lengths only. A length may have up to 4 octets, also more than it needs:
/// Microsoft's clients write all lengths with 4.
struct LDAPMessage {
  /// The most bytes of a message with its head.
  static let most = 64 << 10
  static let startTLS: [UInt8] = Array("1.3.6.1.4.1.1466.20037".utf8)
  static let noticeOfDisconnection: [UInt8] = Array("1.3.6.1.4.1.1466.20036".utf8)

  /// Identifier octets of operations.
  enum Operation {
    static let unbindRequest: UInt8 = 0x42
    static let abandonRequest: UInt8 = 0x50
    static let extendedRequest: UInt8 = 0x77
    static let extendedResponse: UInt8 = 0x78

    /// The response that a request of this kind ends with; nil for what is no request, or has no response.
    static func response(to request: UInt8) -> UInt8? {
      switch request {
      // bind, searchResultDone, modify, add, delete, modify DN, compare, extended
      case 0x60: 0x61
      case 0x63: 0x65
      case 0x66: 0x67
      case 0x68: 0x69
      case 0x4A: 0x6B
      case 0x6C: 0x6D
      case 0x6E: 0x6F
      case extendedRequest: extendedResponse
      default: nil
      }
    }
  }

  /// RFC 4511 §4.1.9.
  enum ResultCode: UInt8 {
    case success = 0
    case protocolError = 2
    case confidentialityRequired = 13
    case unavailable = 52
  }

  let id: UInt32
  let operation: UInt8
  /// The contents of the operation.
  let contents: UnsafeRawBufferPointer

  enum Found {
    case incomplete
    case message(LDAPMessage, length: Int)
    case malformed
    case tooLarge
  }

  /// Reads the first message of the bytes.
  static func first(of bytes: UnsafeRawBufferPointer) -> Found {
    var cursor = ByteCursor(bytes)
    guard let identifier = cursor.uint8() else { return .incomplete }
    guard identifier == 0x30 else { return .malformed }
    let count: Int
    switch cursor.berLength() {
    case .incomplete: return .incomplete
    case .malformed: return .malformed
    case .count(let found): count = found
    }
    let head = bytes.count - cursor.left
    guard count <= most - head else { return .tooLarge }
    guard let contents = cursor.take(count) else { return .incomplete }
    guard let message = LDAPMessage(contents) else { return .malformed }
    return .message(message, length: head + count)
  }

  /// The contents of the message's SEQUENCE: messageID, operation, and controls, which don't matter here.
  private init?(_ bytes: UnsafeRawBufferPointer) {
    var cursor = ByteCursor(bytes)
    guard let number = cursor.element(), number.identifier == 0x02, let id = number.unsigned, id <= 0x7FFF_FFFF,
      let operation = cursor.element()
    else { return nil }
    if !cursor.isAtEnd {
      guard let controls = cursor.element(), controls.identifier == 0xA0, cursor.isAtEnd else { return nil }
    }
    self.id = id
    self.operation = operation.identifier
    self.contents = operation.contents
  }

  // MARK: Parts of operations

  /// The requestName of an ExtendedRequest, and whether a value follows it; nil if malformed.
  var extendedRequest: (name: [UInt8], hasValue: Bool)? {
    var cursor = ByteCursor(contents)
    guard let name = cursor.element(), name.identifier == 0x80 else { return nil }
    if cursor.isAtEnd { return (Array(name.contents), false) }
    guard let value = cursor.element(), value.identifier == 0x81, cursor.isAtEnd else { return nil }
    return (Array(name.contents), true)
  }

  /// The fields of an LDAPResult, and the responseName of an ExtendedResponse; nil if malformed.
  var result: (code: UInt32, diagnostic: [UInt8], name: [UInt8]?)? {
    var cursor = ByteCursor(contents)
    guard let code = cursor.element(), code.identifier == 0x0A, let number = code.unsigned,
      let matched = cursor.element(), matched.identifier == 0x04, let text = cursor.element(), text.identifier == 0x04
    else { return nil }
    var name: [UInt8]?
    while !cursor.isAtEnd {
      guard let field = cursor.element() else { return nil }
      guard field.identifier == 0x8A else { continue }
      guard name == nil else { return nil }
      name = Array(field.contents)
    }
    return (number, Array(text.contents), name)
  }

  // MARK: Writing

  /// An ExtendedRequest that asks for TLS (RFC 4511 §4.14.1).
  static func startTLSRequest(_ id: UInt32) -> [UInt8] {
    message(id, element(Operation.extendedRequest, element(0x80, startTLS)))
  }

  /// `operation`: a response with the fields of LDAPResult. `name`: the responseName of an ExtendedResponse.
  static func response(
    _ id: UInt32, _ operation: UInt8, _ code: ResultCode, _ diagnostic: String, name: [UInt8]? = nil
  ) -> [UInt8] {
    let result = element(0x0A, [code.rawValue]) + element(0x04, []) + element(0x04, Array(diagnostic.utf8))
    return message(id, element(operation, result + (name.map { element(0x8A, $0) } ?? [])))
  }

  /// The server's last message (RFC 4511 §4.4.1).
  static func notice(_ code: ResultCode, _ diagnostic: String) -> [UInt8] {
    response(0, Operation.extendedResponse, code, diagnostic, name: noticeOfDisconnection)
  }

  private static func message(_ id: UInt32, _ operation: [UInt8]) -> [UInt8] {
    element(0x30, element(0x02, integer(id)) + operation)
  }

  /// The fewest octets that say the number, the first of them below 0x80 (X.690 §8.3).
  private static func integer(_ number: UInt32) -> [UInt8] {
    let octets = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    let significant = Array(octets.dropLast().drop { $0 == 0 } + octets.suffix(1))
    return significant.first.map { $0 < 0x80 } == true ? significant : [0] + significant
  }

  static func element(_ identifier: UInt8, _ contents: [UInt8]) -> [UInt8] {
    guard contents.count >= 0x80 else { return [identifier, UInt8(truncatingIfNeeded: contents.count)] + contents }
    let octets = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: contents.count >> $0) }.drop { $0 == 0 }
    return [identifier, 0x80 | UInt8(truncatingIfNeeded: octets.count)] + octets + contents
  }
}

/// An element of BER with an identifier of one octet.
private struct BERElement {
  let identifier: UInt8
  let contents: UnsafeRawBufferPointer

  /// The contents as a number: 1 to 4 octets, not negative.
  var unsigned: UInt32? {
    guard (1...4).contains(contents.count), let first = contents.first, first < 0x80 else { return nil }
    return contents.reduce(0) { $0 << 8 | UInt32($1) }
  }
}

extension ByteCursor {
  fileprivate enum BERLength {
    case incomplete, malformed
    case count(Int)
  }

  /// A definite length of up to 4 octets after the first.
  fileprivate mutating func berLength() -> BERLength {
    guard let first = uint8() else { return .incomplete }
    if first < 0x80 { return .count(Int(first)) }
    guard (0x81...0x84).contains(first) else { return .malformed }
    guard let octets = take(Int(first & 0x7F)) else { return .incomplete }
    return .count(octets.reduce(0) { $0 << 8 | Int($1) })
  }

  /// nil: the element is malformed, or longer than the rest.
  fileprivate mutating func element() -> BERElement? {
    // 0x1F: the identifier goes on in further octets, which LDAP never uses.
    guard let identifier = uint8(), identifier & 0x1F != 0x1F, case .count(let count) = berLength(),
      let contents = take(count)
    else { return nil }
    return BERElement(identifier: identifier, contents: contents)
  }
}
