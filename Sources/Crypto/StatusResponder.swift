import Bytes
import COpenSSL

/// Where an OCSP responder is asked: an http URL, taken apart.
public struct StatusResponder: Sendable, Hashable, CustomStringConvertible {
  let host: String
  let port: String
  let path: String
  public let description: String

  /// The most octets that a response may have.
  private static let sizeLimit = 64 * 1024
  /// The seconds that an answer may take.
  package static let standardTimeLimit: Int32 = 10
  /// The most octets of a URL by which a question is asked (RFC 5019 §5); a longer one goes in a body.
  static let urlLimit = 255

  /// Whom a question waits for: several URLs may lead to one.
  package var address: String { "\(host.lowercased()):\(port)" }

  /// nil for what is no `http://` URL. An answer is signed: TLS would add nothing but a question to be asked first.
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

  /// Asks, and judges the answer. Blocks for up to `timeLimit` seconds: never on an event loop.
  package func ask(
    _ question: StatusQuestion, now: Int64, timeLimit: Int32 = standardTimeLimit
  ) throws(StatusFault) -> (answer: StatusAnswer, der: [UInt8]) {
    let response = try fetch(try question.request(), timeLimit)
    return (try question.judge(response, now: now), response)
  }

  /// The path of a GET (RFC 6960 appendix A.1): the responder's, then the question in Base64, percent-encoded. nil where
  /// the whole URL would be longer than RFC 5019 §5 lets it, or the responder's own has a query.
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

  private func fetch(_ request: [UInt8], _ timeLimit: Int32) throws(StatusFault) -> [UInt8] {
    let getPath = getPath(request)
    var body: OpaquePointer?
    if getPath == nil {
      body = BIO_new_mem_buf(request, CInt(clamping: request.count))
      guard body != nil else { throw StatusFault("\(OpenSSLError.drain())") }
    }
    defer { BIO_free(body) }
    // No proxy of the environment: what is asked about clients goes to the responder and nobody else. Without a body
    // OpenSSL sends a GET; a redirection is a fault.
    let answer = OSSL_HTTP_transfer(
      nil, host, port, getPath ?? path, 0, "", host, nil, nil, nil, nil, 0, nil,
      body == nil ? nil : "application/ocsp-request", body, "application/ocsp-response", 1, Self.sizeLimit, timeLimit, 0
    )
    guard let answer else {
      let error = OpenSSLError.drain()
      throw StatusFault("\(description): no answer: \(error)", isTimeout: error.isTimeout)
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
  /// Whether one of the causes is that the time for a connection or a transfer ran out.
  fileprivate var isTimeout: Bool {
    codes.contains { code in
      copenssl_err_lib(code) == ERR_LIB_BIO
        && [BIO_R_CONNECT_TIMEOUT, BIO_R_TRANSFER_TIMEOUT].contains(copenssl_err_reason(code))
    }
  }
}
