import COpenSSL

/// Where an OCSP responder is asked: an http URL, taken apart.
public struct StatusResponder: Sendable, Hashable, CustomStringConvertible {
  let host: String
  let port: String
  let path: String
  public let description: String

  /// The most octets that a response may have, and the seconds that it may take.
  private static let sizeLimit = 64 * 1024
  private static let timeLimit: CInt = 10

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

  /// Asks, and judges the answer. Blocks for up to ten seconds: never on an event loop.
  package func ask(_ question: StatusQuestion, now: Int64) throws(StatusFault) -> (answer: StatusAnswer, der: [UInt8]) {
    let response = try fetch(try question.request())
    return (try question.judge(response, now: now), response)
  }

  private func fetch(_ request: [UInt8]) throws(StatusFault) -> [UInt8] {
    guard let body = BIO_new_mem_buf(request, CInt(clamping: request.count)) else {
      throw StatusFault("\(OpenSSLError.drain())")
    }
    defer { BIO_free(body) }
    // No proxy of the environment: what is asked about clients goes to the responder and nobody else.
    let answer = OSSL_HTTP_transfer(
      nil, host, port, path, 0, "", host, nil, nil, nil, nil, 0, nil, "application/ocsp-request", body,
      "application/ocsp-response", 1, Self.sizeLimit, Self.timeLimit, 0)
    guard let answer else { throw StatusFault("\(description): no answer: \(OpenSSLError.drain())", isSilence: true) }
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
