@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic
import Transport

@Suite struct `A challenge in an exchange` {
  private static let challenge =
    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"r\"\r\nContent-Length: 2\r\n\r\nno"
  private static let auth =
    "proxy_auth basic; proxy_auth_user_file /nowhere/users; proxy_set_header Connection \"\";"

  @Test func `a challenge is answered over the same session, and the client sees nothing of it`() throws {
    let rig = try Rig.passing(Self.auth)
    let client = try rig.asked()
    #expect(try !rig.upstream.sent.contains("Authorization"))
    try rig.upstream.answer(Self.challenge)
    #expect(client.status == nil && rig.upstreams.count == 1)
    // The Base64 form of al:secret.
    #expect(try rig.upstream.sent.contains("\r\nAuthorization: Basic YWw6c2VjcmV0\r\n"))
    try rig.upstream.answer(Rig.ok)
    #expect(client.status == 200 && client.body == "ok")
  }

  @Test func `credentials that are refused are 502, and shown once`() throws {
    let rig = try Rig.passing(Self.auth)
    let client = try rig.asked()
    try rig.upstream.answer(Self.challenge)
    try rig.upstream.answer(Self.challenge)
    #expect(client.status == 502 && !client.head.contains("WWW-Authenticate"))
    #expect(try rig.upstream.isClosed)
  }
}
