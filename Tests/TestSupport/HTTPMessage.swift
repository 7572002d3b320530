/// A request or response as a test reads it from a wire: by the simplest rules, apart from those under test.
package struct HTTPMessage: Sendable {
  package var startLine: String
  package var fields: [(name: String, value: String)]
  package var body: [UInt8] = []
  package var trailers: [(name: String, value: String)] = []
  package var isChunked = false

  /// The first field of this name, without regard to case.
  package subscript(name: String) -> String? {
    fields.first { $0.name.lowercased() == name.lowercased() }?.value
  }

  package func all(_ name: String) -> [String] {
    fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
  }

  package var text: String { String(decoding: body, as: UTF8.self) }
  /// Of a response.
  package var status: Int { Int(startLine.split(separator: " ").dropFirst().first ?? "") ?? 0 }
  /// Of a request.
  package var method: String { String(startLine.split(separator: " ").first ?? "") }
  package var target: String { String(startLine.split(separator: " ").dropFirst().first ?? "") }
  package var head: String { ([startLine] + fields.map { "\($0.name): \($0.value)" }).joined(separator: "\n") }

  package init(head: [UInt8]) {
    let lines = String(decoding: head, as: UTF8.self).replacing("\r\n", with: "\n")
      .split(separator: "\n", omittingEmptySubsequences: true)
    startLine = String(lines.first ?? "")
    fields = lines.dropFirst().map(Self.field)
  }

  static func field(_ line: Substring) -> (name: String, value: String) {
    guard let colon = line.firstIndex(of: ":") else { return (String(line), "") }
    let value = line[line.index(after: colon)...].drop { $0 == " " }
    return (String(line[..<colon]), String(value))
  }
}

extension Wire {
  /// The next request; nil when the stream ends before one.
  package func request() throws -> HTTPMessage? {
    guard var message = try requestHead() else { return nil }
    try readBody(of: &message)
    return message
  }

  package func requestHead() throws -> HTTPMessage? { try read(through: "\r\n\r\n").map(HTTPMessage.init(head:)) }

  /// The next response, interim ones included: `method` is that of the request.
  package func response(to method: String = "GET") throws -> HTTPMessage {
    guard let head = try read(through: "\r\n\r\n") else { throw WireError.truncated(got: 0) }
    var message = HTTPMessage(head: head)
    if method == "HEAD" || (100..<200).contains(message.status) || message.status == 204 || message.status == 304 {
      return message
    }
    if message["Transfer-Encoding"] == nil && message["Content-Length"] == nil {
      message.body = try readToEnd()
    } else {
      try readBody(of: &message)
    }
    return message
  }

  package func readBody(of message: inout HTTPMessage) throws {
    if message["Transfer-Encoding"]?.lowercased() == "chunked" {
      message.isChunked = true
      while true {
        guard let line = try read(through: "\r\n") else { throw WireError.truncated(got: message.body.count) }
        let digits = String(decoding: line.prefix { $0 != 0x0d && $0 != 0x3b }, as: UTF8.self)
        guard let size = Int(digits, radix: 16) else { throw WireError.malformed("chunk size \(digits)") }
        if size == 0 { break }
        message.body += try read(exactly: size)
        guard try read(exactly: 2) == [13, 10] else { throw WireError.malformed("no CRLF after a chunk") }
      }
      while let line = try read(through: "\r\n"), line.count > 2 {
        message.trailers.append(HTTPMessage.field(Substring(String(decoding: line.dropLast(2), as: UTF8.self))))
      }
    } else if let length = message["Content-Length"] {
      guard let count = Int(length) else { throw WireError.malformed("Content-Length \(length)") }
      message.body = try read(exactly: count)
    }
  }
}
