import Bytes
import Crypto
import Glibc
import HTTP
import TLS
import Transport

/// One request for a revocation list, over plain HTTP. Blocks, so never use it on an event loop.
///
/// Everything that the server sends is bounded: addresses, time, head, body. Nothing of it is shown to anybody. Follows no
/// redirect and uses no proxy: the request goes where the URL says, or nowhere.
struct ListDownload {
  enum Outcome: Equatable {
    /// `freshFor`: seconds, as Cache-Control has them; nil without.
    case body([UInt8], tag: String?, freshFor: Int64?)
    /// 304.
    case unchanged(freshFor: Int64?)
  }

  typealias Fault = FetchedList.Fault

  let url: RevocationURL
  /// The entity tag of the list that is kept.
  var tag: String?
  /// Whether the request may go to an address.
  var admits: @Sendable (SocketAddress) -> Bool = { _ in true }
  var lookUp: Resolver.LookUp = { Resolver.addresses(of: $0, port: $1) }
  /// Seconds for all of it, but the look-up of the name.
  var timeLimit = 60
  /// Bytes.
  var sizeLimit = FetchedList.sizeLimit

  private static let addressLimit = 4
  private static let connectLimit = 10
  private static let interimLimit = 4
  private static let headLimits = HeadLimits(lineBytes: 8192, headBytes: 32768, fields: 200)

  func run() throws(Fault) -> Outcome {
    let deadline = Deadline(seconds: timeLimit)
    let descriptor = try connect(by: deadline)
    defer { close(descriptor) }
    try send(on: descriptor, by: deadline)
    return try receive(from: descriptor, by: deadline)
  }

  // MARK: Connecting

  private func connect(by deadline: Deadline) throws(Fault) -> Int32 {
    let found = SocketAddress(literal: url.host, port: url.port).map { [$0] } ?? lookUp(url.host, url.port)
    guard !found.isEmpty else { throw Fault("the name \(url.host) has no address") }
    let addresses = found.filter(admits)
    guard let first = addresses.first else {
      throw Fault(
        "\(url.host) is an address of this machine or its link, from which no certificate may make it fetch: name the host "
          + "in ssl_crl_fetch")
    }
    var fault = Fault("\(first) does not answer")
    for address in addresses.prefix(Self.addressLimit) {
      guard !deadline.isOver else { break }
      do throws(SocketError) {
        let descriptor = try Sockets.connect(to: address)
        let code = Self.result(of: descriptor, by: min(Self.connectLimit, timeLimit), deadline)
        if code == 0 { return descriptor }
        close(descriptor)
        fault = Fault("no connection to \(address): \(String(cString: strerror(code)))")
      } catch {
        fault = Fault("no connection to \(address): \(error)")
      }
    }
    throw fault
  }

  /// The errno of a connection that is under way.
  private static func result(of descriptor: Int32, by seconds: Int, _ deadline: Deadline) -> Int32 {
    guard Deadline(seconds: seconds).wait(for: descriptor, Int16(POLLOUT)), !deadline.isOver else { return ETIMEDOUT }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno
  }

  private func send(on descriptor: Int32, by deadline: Deadline) throws(Fault) {
    let lines =
      "GET \(url.target) HTTP/1.1\r\nHost: \(url.authority)\r\nUser-Agent: sallyport\r\n"
      + "Accept: application/pkix-crl, */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n"
      + (tag.map { "If-None-Match: \($0)\r\n" } ?? "") + "\r\n"
    var rest = Array(lines.utf8)[...]
    while !rest.isEmpty {
      guard deadline.wait(for: descriptor, Int16(POLLOUT)) else { throw Self.late }
      let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      if count < 0, errno == EAGAIN || errno == EINTR { continue }
      guard count > 0 else { throw Fault("the connection broke: \(String(cString: strerror(errno)))") }
      rest = rest.dropFirst(count)
    }
  }

  private static let late = Fault("no whole answer in time")

  // MARK: Receiving

  /// Reads more; false at the end of the stream.
  private static func read(
    _ descriptor: Int32, into bytes: inout [UInt8], by deadline: Deadline
  ) throws(Fault) -> Bool {
    var piece = [UInt8](repeating: 0, count: 16384)
    while true {
      guard deadline.wait(for: descriptor, Int16(POLLIN)) else { throw late }
      let count = Glibc.read(descriptor, &piece, piece.count)
      if count < 0, errno == EAGAIN || errno == EINTR { continue }
      guard count >= 0 else { throw Fault("the connection broke: \(String(cString: strerror(errno)))") }
      bytes += piece.prefix(count)
      return count > 0
    }
  }

  private func receive(from descriptor: Int32, by deadline: Deadline) throws(Fault) -> Outcome {
    var bytes: [UInt8] = []
    let head = try Self.head(from: descriptor, &bytes, by: deadline)
    let cacheControl = Self.value(.cacheControl, of: head)
    let freshFor = cacheControl.flatMap { CacheLifetime.seconds($0) }
    if head.status == 304, tag != nil { return .unchanged(freshFor: freshFor) }
    guard head.status == 200 else { throw Fault("it answers with status \(head.status)") }
    if let length = head.announcedLength, length > UInt64(sizeLimit) { throw tooLarge }
    if let coding = Self.value(.contentEncoding, of: head), coding.lowercased() != "identity" {
      throw Fault("it sends a content coding that nobody asked for")
    }
    let body = try body(head.framing, after: bytes, from: descriptor, by: deadline)
    return .body(body, tag: Self.value(.etag, of: head), freshFor: freshFor)
  }

  private var tooLarge: Fault { Fault("it sends more than \(sizeLimit >> 20) MiB, the limit of a list") }

  /// Leaves in `bytes` what came after the head.
  private static func head(
    from descriptor: Int32, _ bytes: inout [UInt8], by deadline: Deadline
  ) throws(Fault) -> ResponseHead {
    let head = ResponseHead()
    for _ in 0..<interimLimit {
      var parser = HeadParser()
      reading: while true {
        switch bytes.withUnsafeBytes({ parser.response($0, limits: headLimits, requestMethod: .get, into: head) }) {
        case .complete(let consumed):
          bytes.removeFirst(min(consumed, bytes.count))
          break reading
        case .failed(let error): throw Fault("it sends no valid response: \(error.reason)")
        case .incomplete:
          guard try read(descriptor, into: &bytes, by: deadline) else {
            throw Fault(bytes.isEmpty ? "it closes the connection without an answer" : "its answer ends in the head")
          }
        }
      }
      if !head.isInterim { return head }
    }
    throw Fault("it sends interim responses only")
  }

  private func body(
    _ framing: BodyFraming, after start: [UInt8], from descriptor: Int32, by deadline: Deadline
  ) throws(Fault) -> [UInt8] {
    var decoder = BodyDecoder(framing)
    var body: [UInt8] = []
    var bytes = start
    // Bytes that the decoder has taken.
    var taken = 0
    while true {
      // Deep inside a body of chunks, many steps need no reading.
      guard !deadline.isOver else { throw Self.late }
      switch bytes.withUnsafeBytes({ decoder.next(UnsafeRawBufferPointer(rebasing: $0[taken...])) }) {
      case .data(let begin, let count, let consumed):
        guard count <= sizeLimit - body.count else { throw tooLarge }
        body += bytes[(taken + begin)..<(taken + begin + count)]
        taken += consumed
      case .end: return body
      case .failed(let error): throw Fault("its body is malformed: \(error.reason)")
      case .needsMore(let consumed):
        bytes.removeFirst(min(taken + consumed, bytes.count))
        taken = 0
        guard try !Self.read(descriptor, into: &bytes, by: deadline) else { continue }
        guard decoder.atEndOfStream() == .complete else { throw Fault("its answer ends in the body") }
        return body
      }
    }
  }

  private static func value(_ name: FieldName, of head: ResponseHead) -> String? {
    guard let field = head.first(name) else { return nil }
    let bytes = head.bytes.readable
    let start = Int(field.value.start)
    let end = start + Int(field.value.count)
    guard start >= 0, start <= end, end <= bytes.count else { return nil }
    return String(decoding: bytes[start..<end], as: UTF8.self)
  }
}

/// How long a response says that it stays fresh (RFC 9111 §5.2.2.1).
enum CacheLifetime {
  /// Returns the value of `max-age`; nil without a readable one.
  static func seconds(_ cacheControl: String) -> Int64? {
    for part in cacheControl.split(separator: ",").prefix(32) {
      let words = part.split(separator: "=", maxSplits: 1).map { $0.trimmingBlanks }
      guard words.count == 2, words[0].lowercased() == "max-age" else { continue }
      let digits = words[1].hasPrefix("\"") && words[1].hasSuffix("\"") ? words[1].dropFirst().dropLast() : words[1]
      guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 &- 0x30 < 10 }) else { return nil }
      return Int64(digits) ?? .max
    }
    return nil
  }
}

extension Substring {
  fileprivate var trimmingBlanks: Substring {
    var rest = self
    while rest.hasPrefix(" ") || rest.hasPrefix("\t") { rest.removeFirst() }
    while rest.hasSuffix(" ") || rest.hasSuffix("\t") { rest.removeLast() }
    return rest
  }
}
