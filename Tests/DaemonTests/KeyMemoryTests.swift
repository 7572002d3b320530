@testable import Traffic
@testable import Forward
@testable import Features
import Testing

@testable import Configuration
@testable import Daemon

@Suite struct `The memory for private keys` {
  private func bytes(_ servers: String) throws -> Int {
    let text = "worker_processes 1; http { \(servers) }"
    let loaded = Configuration.load(text: text, fileName: "/etc/sallyport/sallyport.conf")
    let settings = try #require(loaded.settings, "\(loaded.diagnostics)")
    return KeyMemory.bytes(for: settings, files: settings.http.materialReferences.count)
  }

  private func server(_ number: Int, _ certificate: String, _ more: String = "return 404;") -> String {
    """
    server {
      listen 443 ssl; server_name h\(number).test;
      ssl_certificate \(certificate).pem; ssl_certificate_key \(certificate).key; location / { \(more) }
    }
    """
  }

  @Test func `a file that many server blocks name counts once, other files each`() throws {
    let one = try bytes(server(0, "a"))
    #expect(try bytes((0..<50).map { server($0, "a") }.joined()) == one)
    #expect(try bytes((0..<50).map { server($0, "c\($0)") }.joined()) > one + 49 * 4096)
  }

  @Test func `a key of signatures counts for each location, because each loads it`() throws {
    func signing(_ count: Int) throws -> Int {
      try bytes(
        (0..<count).map {
          server(
            $0, "a",
            """
            proxy_pass http://127.0.0.1:81; message_signature sign; message_signature_key k\($0) ed25519 sign.key;
            """)
        }.joined())
    }
    #expect(try signing(50) >= signing(1) + 49 * 4096)
  }
}
