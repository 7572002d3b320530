import Bytes
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic

/// `proxy_pass_trailers` and `$upstream_trailer_…`.
@Suite struct `Trailers of a response` {
  private static let answer =
    "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 17\r\n\r\n"

  private func asked(_ directives: String) throws -> (client: MemoryStream, rig: Rig) {
    let rig = try Rig(
      """
      upstream u { server 127.0.0.1:9; }
      server { listen 80; location / { proxy_pass http://u; proxy_http_version 1.1; \(directives) } }
      """)
    let client = try rig.ask("GET / HTTP/1.1", "Host: h", "TE: trailers")
    try rig.upstream.open()
    try rig.upstream.answer(Self.answer)
    return (client, rig)
  }

  private func trailers(_ client: MemoryStream) -> [String] {
    guard let trailers = client.trailers else { return [] }
    return trailers.bytes.withUnsafeBytes { bytes in
      trailers.fields.map { "\(bytes[$0.name].text): \(bytes[$0.value].text)" }
    }
  }

  @Test(arguments: ["", "proxy_pass_trailers on;"]) func `pass to the client`(directive: String) throws {
    let (client, _) = try asked(directive)
    #expect(client.status == 200 && client.body == "ok")
    #expect(trailers(client) == ["X-Sum: 17"])
  }

  @Test func `don't pass with proxy_pass_trailers off, and nothing announces them`() throws {
    let (client, _) = try asked("proxy_pass_trailers off;")
    #expect(client.status == 200 && client.body == "ok")
    #expect(trailers(client).isEmpty)
    #expect(!client.head.lowercased().contains("trailer"), "\(client.head)")
  }

  @Test func `are variables, also where the client doesn't get them`() throws {
    let (client, _) = try asked(
      "proxy_pass_trailers off; add_trailer X-Own \"<$upstream_trailer_x_sum|$upstream_trailer_y>\";")
    #expect(trailers(client) == ["X-Own: <17|>"])
  }
}
