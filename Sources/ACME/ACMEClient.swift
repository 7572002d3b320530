import Bytes
import HTTP
import Observability
package import TLS
package import Transport

/// Speaks HTTP with an ACME server, on a thread that may wait. Never use it on an event loop.
///
/// Each request has a connection of its own. The server is verified before the first byte; redirects are answers like
/// others, and followed by nobody. Size and time of an answer are bounded.
package struct ACMEClient: Sendable {
  package typealias LookUp = @Sendable (_ host: String, _ port: UInt16) -> [SocketAddress]

  /// Seconds that one request may take.
  private static let timeLimit = 30
  private static let bodyLimit = 1 << 20
  private static let headLimits = HeadLimits(lineBytes: 8192, headBytes: 32_768, fields: 100)
  private static let jose = "application/jose+json"

  private let context: UpstreamTLSContext
  private let lookUp: LookUp

  package init(context: UpstreamTLSContext, lookUp: @escaping LookUp = { Resolver.addresses(of: $0, port: $1) }) {
    self.context = context
    self.lookUp = lookUp
  }

  package func get(_ url: ACMEURL) throws(ACMEError) -> ACMEResponse { try perform(.get, url, nil) }

  /// A HEAD request, for a nonce (RFC 8555 §7.2).
  package func head(_ url: ACMEURL) throws(ACMEError) -> ACMEResponse { try perform(.head, url, nil) }

  /// `body`: a JWS.
  package func post(_ url: ACMEURL, _ body: String) throws(ACMEError) -> ACMEResponse { try perform(.post, url, body) }

  private func perform(_ method: HTTP.Method, _ url: ACMEURL, _ body: String?) throws(ACMEError) -> ACMEResponse {
    let word =
      switch method {
      case .get: "GET"
      case .head: "HEAD"
      default: "POST"
      }
    var lines = [
      "\(word) \(url.target) HTTP/1.1", "Host: \(url.authority)", "User-Agent: \(Product.name)/\(Product.version)",
      "Accept: application/pem-certificate-chain, application/json, */*", "Accept-Language: en", "Connection: close",
    ]
    if let body { lines += ["Content-Type: \(Self.jose)", "Content-Length: \(body.utf8.count)"] }
    let request = Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")).utf8)
    let literal = SocketAddress(literal: url.host, port: url.port)
    let addresses = literal.map { [$0] } ?? lookUp(url.host, url.port)
    guard !addresses.isEmpty else { throw ACMEError("\(url.authority): the name can't be resolved") }
    var reason = ""
    for address in addresses.prefix(4) {
      var reader = AnswerReader(method, limits: Self.headLimits, bodyLimit: Self.bodyLimit)
      let exchange = BlockingExchange(context: context, name: url.host, seconds: Self.timeLimit)
      let isEnded: Bool
      do throws(BlockingExchangeError) {
        isEnded = try exchange.perform(at: address, request) { reader.take($0) }
      } catch {
        reason = error.description
        // A server that has begun to answer must not hear the request again at another address.
        if reader.hasBegun { break }
        continue
      }
      return try reader.answer(isEnded: isEnded, from: url)
    }
    throw ACMEError("\(url.authority): \(reason)")
  }
}

/// Reads one response from its pieces.
struct AnswerReader {
  private let method: HTTP.Method
  private let limits: HeadLimits
  private let bodyLimit: Int
  private let head = ResponseHead()
  private var parser = HeadParser()
  private var input: [UInt8] = []
  private var decoder: BodyDecoder?
  private var body: [UInt8] = []
  private var fault: String?
  private var isWhole = false

  init(_ method: HTTP.Method, limits: HeadLimits, bodyLimit: Int) {
    self.method = method
    self.limits = limits
    self.bodyLimit = bodyLimit
  }

  /// Whether a byte of the answer has come.
  var hasBegun: Bool { !input.isEmpty || decoder != nil || fault != nil }

  /// Returns whether more is wanted.
  mutating func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    input += bytes
    while decoder == nil {
      let outcome = input.withUnsafeBytes { parser.response($0, limits: limits, requestMethod: method, into: head) }
      switch outcome {
      case .incomplete: return true
      case .failed(let error): return fail("its head is malformed: \(error.reason)")
      case .complete(let consumed):
        input.removeFirst(consumed)
        if head.status == 101 { return fail("it changes the protocol") }
        if !head.isInterim { decoder = BodyDecoder(head.framing) }
      }
    }
    while let step = input.withUnsafeBytes({ decoder?.next($0) }) {
      switch step {
      case .needsMore(let consumed):
        input.removeFirst(consumed)
        return true
      case .data(let start, let count, let consumed):
        guard body.count + count <= bodyLimit else { return fail("its body is larger than \(bodyLimit) bytes") }
        body += input[start..<start + count]
        input.removeFirst(consumed)
      case .end:
        isWhole = true
        return false
      case .failed(let error): return fail("its body is malformed: \(error.reason)")
      }
    }
    return false
  }

  private mutating func fail(_ reason: String) -> Bool {
    fault = reason
    return false
  }

  /// The whole answer. `isEnded`: the server ended the connection in good order.
  func answer(isEnded: Bool, from url: ACMEURL) throws(ACMEError) -> ACMEResponse {
    if let fault { throw ACMEError("\(url.authority): the answer is refused: \(fault)") }
    guard decoder != nil else { throw ACMEError("\(url.authority): the connection ended without an answer") }
    guard isWhole || isEnded && head.framing == .untilClose else {
      throw ACMEError("\(url.authority): the connection ended within the answer")
    }
    var response = ACMEResponse(status: Int(head.status), body: body)
    response.nonce = value("Replay-Nonce").flatMap { Self.isNonce($0) ? $0 : nil }
    response.location = value("Location")
    response.retryAfter = value("Retry-After").flatMap { text in
      Int64(text) ?? Array(text.utf8).withUnsafeBytes { HTTPDate.parse($0) }.map { $0 - now }
    }
    response.alternates = links
    return response
  }

  /// RFC 8555 §6.5.1: the characters of base64url. Whether it is a canonical text is the server's own affair.
  private static func isNonce(_ text: String) -> Bool {
    (1...1024).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
      }
  }

  /// Seconds since 1970 by the server's own clock, or 0: a date that Retry-After names counts from there.
  private var now: Int64 {
    value("Date").flatMap { text in Array(text.utf8).withUnsafeBytes { HTTPDate.parse($0) } } ?? 0
  }

  private func value(_ name: String) -> String? {
    Array(name.utf8).withUnsafeBytes { head.value(named: $0) }.map { head.bytes.readable[$0].text }
  }

  /// The targets of `Link` fields whose relation is `alternate` (RFC 8288 §3).
  private var links: [String] {
    let all = head.fields.filter { head.bytes.readable[$0.name].text.lowercased() == "link" }
      .map { head.bytes.readable[$0.value].text }
    return all.flatMap { $0.split(separator: ",") }.prefix(16).compactMap { link in
      let parts = link.split(separator: ";").map { $0.drop { $0 == " " || $0 == "\t" } }
      guard let target = parts.first, target.hasPrefix("<"), let end = target.firstIndex(of: ">"),
        parts.dropFirst().contains(where: { ["rel=\"alternate\"", "rel=alternate"].contains($0.lowercased()) })
      else { return nil }
      return String(target[target.index(after: target.startIndex)..<end])
    }
  }
}
