import Bytes
import COpenSSL
import Glibc

/// The address of an OCSP responder: a parsed http URL.
public struct StatusResponder: Sendable, Hashable, CustomStringConvertible {
  /// Without brackets.
  package let host: String
  let port: String
  let path: String
  public let description: String

  /// The largest size of a response in octets.
  private static let sizeLimit = 64 * 1024
  /// The seconds that a response may take.
  package static let standardTimeLimit: Int32 = 10
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

  /// Sends the request and verifies the response. Blocks for up to `timeLimit` seconds, so never call it on an event
  /// loop. `addresses`: the only ones to connect to, as IP addresses; nil: whatever the system says that the host has.
  package func ask(
    _ question: OCSPRequest, now: Int64, at addresses: [String]? = nil, timeLimit: Int32 = standardTimeLimit
  ) throws(OCSPError) -> (answer: StatusAnswer, der: [UInt8]) {
    let response = try fetch(try question.request(), at: addresses, timeLimit)
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

  /// Connects to the first of the addresses that takes a connection. The caller frees it.
  ///
  /// `BIO_do_connect_retry`, and with it `OSSL_HTTP_transfer`, would repeat a connection that was refused until the time is
  /// over, and each client would wait for that.
  private func connect(_ addresses: [String], _ timeLimit: Int32) throws(OCSPError) -> OpaquePointer {
    var error = OpenSSLError.drain()
    let tried = addresses.prefix(Self.mostAddresses)
    for address in tried {
      let share = max(1, timeLimit / Int32(clamping: tried.count))
      let connection = BIO_new_connect("\(address.contains(":") ? "[\(address)]" : address):\(port)")
      if let connection, Self.isConnected(connection, within: share) { return connection }
      error = OpenSSLError.drain()
      BIO_free_all(connection)
    }
    throw OCSPError("\(description): no answer: \(error)", isTimeout: error.isTimeout)
  }

  /// Waits until the connection is there. Leaves an error in the thread's queue otherwise. `seconds`: for this.
  private static func isConnected(_ connection: OpaquePointer, within seconds: Int32) -> Bool {
    let end = time(nil) + Int(seconds)
    BIO_ctrl(connection, BIO_C_SET_NBIO, 1, nil)
    while BIO_ctrl(connection, BIO_C_DO_STATE_MACHINE, 0, nil) != 1 {
      guard BIO_test_flags(connection, BIO_FLAGS_SHOULD_RETRY) != 0, BIO_wait(connection, end, 100) == 1 else {
        return false
      }
    }
    return true
  }

  private func fetch(_ request: [UInt8], at addresses: [String]?, _ timeLimit: Int32) throws(OCSPError) -> [UInt8] {
    let begin = time(nil)
    let connection = try connect(addresses ?? [host], timeLimit)
    defer { BIO_free_all(connection) }
    // The clock may have been set back meanwhile.
    let timeLeft = max(1, timeLimit - Int32(clamping: max(0, time(nil) - begin)))
    let getPath = getPath(request)
    var body: OpaquePointer?
    if getPath == nil {
      body = BIO_new_mem_buf(request, CInt(clamping: request.count))
      guard body != nil else { throw OCSPError("\(OpenSSLError.drain())") }
    }
    defer { BIO_free(body) }
    // Over this connection OpenSSL ignores the environment's proxy: only the responder may see which client is asked about.
    // Without a body OpenSSL sends a GET. A redirect is a fault.
    let answer = OSSL_HTTP_transfer(
      nil, host, port, getPath ?? path, 0, nil, nil, connection, nil, nil, nil, 0, nil,
      body == nil ? nil : "application/ocsp-request", body, "application/ocsp-response", 1, Self.sizeLimit, timeLeft, 0
    )
    guard let answer else {
      let error = OpenSSLError.drain()
      throw OCSPError("\(description): no answer: \(error)", isTimeout: error.isTimeout)
    }
    defer { BIO_free(answer) }
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

extension OpenSSLError {
  /// Whether a cause is that a connection or a transfer timed out.
  fileprivate var isTimeout: Bool {
    codes.contains { code in
      [BIO_R_CONNECT_TIMEOUT, BIO_R_TRANSFER_TIMEOUT].contains(copenssl_err_reason(code, ERR_LIB_BIO))
    }
  }
}
