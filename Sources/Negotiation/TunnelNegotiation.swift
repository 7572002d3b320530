import Bytes

/// What is said to an upstream, or to a proxy in front of it, before the protocol of the connection begins.
public protocol OpeningNegotiation: Sendable {
  /// What is sent at once, before the other side says anything.
  var opening: [UInt8] { get }
  /// See `UpstreamNegotiation.take`.
  mutating func take(_ input: UnsafeRawBufferPointer) -> NegotiationStep<UpstreamNegotiation.Next>
}

extension UpstreamNegotiation: OpeningNegotiation {}

/// The request for a tunnel through a proxy of HTTP (CONNECT, RFC 9110 §9.3.6), and its response.
///
/// A value without a socket, used as `UpstreamNegotiation` is. Only a response of 2xx opens the tunnel. Its fields mean
/// nothing here, Content-Length and Transfer-Encoding included: the bytes behind the head are the tunnel's, and whoever
/// speaks inside it judges them.
public struct TunnelNegotiation: OpeningNegotiation {
  /// The most bytes and lines that a proxy says before the tunnel, in interim responses and in the last one.
  public static let most = 16 << 10
  public static let lineLimit = 200

  private let authority: String
  private let authorization: [UInt8]
  private var stage = Stage.status
  private var ended: UpstreamNegotiation.Next?
  private var consumedBytes = 0
  private var lines = 0

  private enum Stage {
    case status
    /// `opens`: the tunnel begins behind the head; else another response follows an interim one.
    case fields(opens: Bool)
  }

  /// `authority`: `HOST:PORT` of the server. `authorization`: the value of Proxy-Authorization; empty: none.
  public init(authority: String, authorization: [UInt8] = []) {
    self.authority = authority
    self.authorization = authorization
  }

  /// The request. It says nothing of sallyport or of its clients.
  public var opening: [UInt8] {
    var bytes = Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
    if !authorization.isEmpty { bytes += Array("Proxy-Authorization: ".utf8) + authorization + Array("\r\n".utf8) }
    return bytes + Array("\r\n".utf8)
  }

  public mutating func take(_ input: UnsafeRawBufferPointer) -> NegotiationStep<UpstreamNegotiation.Next> {
    var consumed = 0
    while ended == nil {
      let rest = UnsafeRawBufferPointer(rebasing: input[consumed...])
      switch ClearLine.first(of: rest, limit: Self.most - consumedBytes) {
      case .incomplete: return NegotiationStep(consumed: consumed, reply: [], next: .more)
      case .tooLong: ended = .end(reason: "it sent more than \(Self.most) bytes before the tunnel")
      case .badEnd: ended = .end(reason: "it sent a CR or LF that is no line end before the tunnel")
      case .line(let text, let length):
        consumed += length
        consumedBytes += length
        lines += 1
        ended = lines <= Self.lineLimit ? turn(text) : .end(reason: "it sent more than \(Self.lineLimit) lines")
      }
      if ended != nil { return NegotiationStep(consumed: consumed, reply: [], next: ended ?? .more) }
    }
    return NegotiationStep(consumed: 0, reply: [], next: ended ?? .more)
  }

  /// What a line leads to; nil: the next one.
  private mutating func turn(_ line: [UInt8]) -> UpstreamNegotiation.Next? {
    switch stage {
    case .status:
      guard let status = Self.status(line) else {
        return .end(reason: "it said \(HeardText.quoted(line)), which is no response to CONNECT \(authority)")
      }
      switch status {
      case 200...299: stage = .fields(opens: true)
      case 100, 102...199: stage = .fields(opens: false)
      case 407:
        let reason = authorization.isEmpty ? "it asks for credentials" : "it refused the credentials"
        return .end(reason: "\(reason): \(HeardText.quoted(line))")
      default: return .end(reason: "it refused CONNECT \(authority): \(HeardText.quoted(line))")
      }
    case .fields(let opens):
      if line.isEmpty {
        stage = .status
        return opens ? .done : nil
      }
      guard Self.isField(line) else {
        return .end(reason: "it sent a line that is no field: \(HeardText.quoted(line))")
      }
    }
    return nil
  }

  /// The status of `HTTP/1.0 200 Connection established`; nil: it is no status line of HTTP/1 (RFC 9112 §4).
  private static func status(_ line: [UInt8]) -> Int? {
    let (version, rest) = line.firstWord
    guard version.elementsEqual("HTTP/1.1".utf8) || version.elementsEqual("HTTP/1.0".utf8), let rest else { return nil }
    let digits = rest.firstWord.word
    guard digits.count == 3, digits.allSatisfy({ ASCII.isDigit($0) }), rest.allSatisfy(isText) else { return nil }
    let status = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    return status >= 100 ? status : nil
  }

  /// A line that continues the one before it is none (RFC 9112 §5.2).
  private static func isField(_ line: [UInt8]) -> Bool {
    guard let colon = line.firstIndex(of: 0x3A), colon > 0 else { return false }
    return line[..<colon].allSatisfy { $0 > 0x20 && $0 < 0x7F } && line[colon...].allSatisfy(isText)
  }

  private static func isText(_ byte: UInt8) -> Bool { byte == 0x09 || byte >= 0x20 && byte != 0x7F }
}
