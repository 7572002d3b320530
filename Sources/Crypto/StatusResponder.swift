import Bytes
import COpenSSL

/// The address of an OCSP responder: a parsed http URL.
public struct StatusResponder: Sendable, Hashable, CustomStringConvertible {
  /// Without brackets.
  package let host: String
  let port: String
  let path: String
  public let description: String

  /// The largest size of a response in octets.
  private static let sizeLimit = 64 * 1024
  /// The milliseconds that a response may take.
  package static let standardTimeLimit: UInt64 = 10_000
  private static let mostAddresses = 4
  /// The largest length in octets of the URL of a GET request (RFC 5019 §5). A longer request goes in the body of a
  /// POST.
  static let urlLimit = 255

  /// The host and port of the responder; several URLs may lead to the same one.
  package var address: String { "\(host.lowercased()):\(port)" }

  /// Returns nil for anything but an `http://` URL. Responses are signed, so TLS would add only another certificate to
  /// check.
  package init?(_ url: String) {
    guard url.hasPrefix("http://") else { return nil }
    var host: UnsafeMutablePointer<CChar>?
    var port: UnsafeMutablePointer<CChar>?
    var path: UnsafeMutablePointer<CChar>?
    guard OSSL_HTTP_parse_url(url, nil, nil, &host, &port, nil, &path, nil, nil) == 1 else {
      OpenSSLError.discard()
      return nil
    }
    defer {
      copenssl_free(host)
      copenssl_free(port)
      copenssl_free(path)
    }
    self.host = host.map { String(cString: $0) } ?? ""
    self.port = port.map { String(cString: $0) } ?? "80"
    self.path = path.map { String(cString: $0) } ?? "/"
    description = url
    if self.host.isEmpty { return nil }
  }

  package var portNumber: UInt16? { UInt16(port) }

  /// Sends the request and verifies the response. Blocks for up to `limit` milliseconds, so never call it on an
  /// event loop. `addresses`: the only ones to connect to, as IP addresses; nil: whatever the system says that the host has.
  package func ask(
    _ question: OCSPRequest, now: Int64, at addresses: [String]? = nil, within limit: UInt64 = standardTimeLimit
  ) throws(OCSPError) -> (answer: StatusAnswer, der: [UInt8]) {
    let response = try fetch(try question.request(), at: addresses, limit)
    return (try question.judge(response, now: now), response)
  }

  /// Returns the path of a GET (RFC 6960 appendix A.1): the responder's path, then the request in Base64,
  /// percent-encoded.
  ///
  /// Returns nil when the whole URL would exceed the limit of RFC 5019 §5, or the responder's URL has a query.
  func getPath(_ request: [UInt8]) -> String? {
    guard !path.contains("?") else { return nil }
    var encoded = ""
    for character in Base64.encode(request) {
      switch character {
      case "+": encoded += "%2B"
      case "/": encoded += "%2F"
      case "=": encoded += "%3D"
      default: encoded.append(character)
      }
    }
    let path = (self.path.hasSuffix("/") ? path : path + "/") + encoded
    let isIPv6 = host.contains(":")
    let authority = (isIPv6 ? "[\(host)]" : host) + (port == "80" ? "" : ":\(port)")
    return "http://\(authority)\(path)".utf8.count <= Self.urlLimit ? path : nil
  }

  /// Connects to the first of the addresses that takes a connection.
  ///
  /// `BIO_do_connect_retry`, and with it `OSSL_HTTP_transfer`, would repeat a connection that was refused until the time is
  /// over, and each client would wait for that.
  private func connect(_ addresses: [String], _ time: SharedTime) throws(OCSPError) -> TimedConnection {
    let tried = addresses.prefix(Self.mostAddresses)
    var fault = OCSPError("\(description): no address")
    for (index, address) in tried.enumerated() {
      guard let share = time.share(of: tried.count - index) else { throw unanswered() }
      guard let connection = TimedConnection(to: address, port: port, within: share) else {
        fault = failed(OpenSSLError.drain())
        continue
      }
      if connection.connect() { return connection }
      let error = OpenSSLError.drain()
      fault = connection.isOver ? unanswered() : failed(error)
    }
    throw fault
  }

  private func failed(_ error: OpenSSLError) -> OCSPError {
    // OpenSSL gives no reason for a redirect, which it would follow only if it were told to.
    OCSPError(
      "\(description): no answer: \(error.codes.isEmpty ? "it redirects, or it ended the connection" : "\(error)")")
  }

  private func unanswered() -> OCSPError { OCSPError("\(description): no answer in time", isTimeout: true) }

  private func fetch(_ request: [UInt8], at addresses: [String]?, _ limit: UInt64) throws(OCSPError) -> [UInt8] {
    let time = SharedTime(milliseconds: limit)
    let connection = try connect(addresses ?? [host], time)
    defer { withExtendedLifetime(connection) {} }
    guard let left = time.share(of: 1) else { throw unanswered() }
    connection.extend(to: left)
    let getPath = getPath(request)
    var body: OpaquePointer?
    if getPath == nil {
      body = BIO_new_mem_buf(request, CInt(clamping: request.count))
      guard body != nil else { throw OCSPError("\(OpenSSLError.drain())") }
    }
    defer { BIO_free(body) }
    // Over this connection OpenSSL ignores the environment's proxy: only the responder may see which client is asked about.
    let transfer = OSSL_HTTP_open(host, port, nil, nil, 0, connection.handle, connection.handle, nil, nil, 0, 0)
    guard let transfer else { throw OCSPError("\(OpenSSLError.drain())") }
    defer { OSSL_HTTP_REQ_CTX_free(transfer) }
    // Without a body OpenSSL sends a GET.
    let isSet = OSSL_HTTP_set1_request(
      transfer, getPath ?? path, nil, body == nil ? nil : "application/ocsp-request", body,
      "application/ocsp-response", 1, Self.sizeLimit, 0, 0)
    guard isSet == 1 else { throw OCSPError("\(OpenSSLError.drain())") }
    var state = OSSL_HTTP_REQ_CTX_nbio(transfer)
    while state == -1 {
      guard connection.wait() else {
        OpenSSLError.discard()
        throw unanswered()
      }
      state = OSSL_HTTP_REQ_CTX_nbio(transfer)
    }
    guard state == 1, let answer = OSSL_HTTP_REQ_CTX_get0_mem_bio(transfer) else { throw failed(OpenSSLError.drain()) }
    var response: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while response.count <= Self.sizeLimit {
      let count = BIO_read(answer, &buffer, CInt(buffer.count))
      if count <= 0 { break }
      response += buffer[..<Int(count)]
    }
    OpenSSLError.discard()
    return response
  }
}
