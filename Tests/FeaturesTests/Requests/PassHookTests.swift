@testable import Features
@testable import Forward
import HTTP
import Identity
import Language
import Testing
@testable import Traffic
import UpstreamAuth

@Suite struct `What hangs on a pass` {
  private func pass(_ lines: String, listen: String = "listen 80;") throws -> CompiledPass {
    let rig = try Rig("server { \(listen) location @up { proxy_pass http://127.0.0.1:9; \(lines) } }")
    return try #require(rig.live.servers[0].locations.named("up")?.content as? CompiledPass)
  }

  @Test func `a pass of which nothing else is said runs no hooks`() throws {
    let plain = try pass("proxy_redirect off; proxy_ignore_headers X-Accel-Limit-Rate;")
    #expect(plain.requestHooks.isEmpty && plain.filters.isEmpty && plain.ownBodies == nil && !plain.digestsBodies)
    #expect(plain.rewrittenFields.isEmpty && plain.instructingFields.isEmpty && plain.group != nil)
    #expect(try pass("").instructingFields == FieldNameSet(.xAccelLimitRate))
  }

  @Test func `each feature has its part, and its hooks run in the order of the features`() throws {
    let pass = try pass(
      """
      client_identity xfcc; proxy_auth basic; proxy_auth_user_file /nowhere/users; proxy_limit_rate 1k;
      message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key /nowhere/key;
      message_envelope_mac none; proxy_cookie_flags a secure;
      """,
      listen:
        "listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_client_certificate a.pem; ssl_verify_client on;"
    )
    #expect(pass.settings[IdentityFieldForm.self] == .xfcc && pass.settings[EnvelopeSettings.self] != nil)
    #expect(pass.settings[UpstreamAuthSettings.self]?.schemes == .basic && pass.settings[SignatureSettings.self] == nil)
    #expect(pass.requestHooks.map(\.opensBodies) == [false, true, false])
    #expect(pass.requestHooks.map { $0.note != nil } == [false, false, true])
    #expect(pass.filters.count == 1 && pass.ownBodies != nil && !pass.isCompressible)
    #expect(pass.rewrittenFields == FieldNameSet(.location, .refresh, .setCookie))
    #expect(pass.replaced.contains(.authorization) && pass.replaced.contains(.range))
    #expect(pass.hidden.contains(.wwwAuthenticate) && pass.hidden.contains(.etag))
  }

  @Test func `a request goes nowhere while what a part needs is not loaded`() throws {
    let unsigned = try pass("message_signature sign; message_signature_key k hmac-sha256 /nowhere/key;")
    #expect(unsigned.group == nil && unsigned.followed == nil && unsigned.targetTemplate == nil)
    #expect(unsigned.digestsBodies)
  }

  @Test func `a body in clear goes to no upstream whose bodies come sealed`() throws {
    let sealed = try pass(
      "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key /nowhere/key; message_envelope_mac none;"
    )
    let body = RequestBody(allowance: 10)
    #expect(try !sealed.takes(body) && pass("").takes(body))
  }
}

@Suite struct `Dialects of upstreams` {
  @Test(arguments: [
    ("http://h", UpstreamScheme.http, 7), ("HTTPS://h", .https, 8), ("https://", nil, 0), ("grpc://h", nil, 0),
    ("h", nil, 0),
  ])
  func `a URL of HTTP begins with its scheme`(url: String, scheme: UpstreamScheme?, count: Int) {
    let found = ProxyPass.dialect.scheme(of: Array(url.utf8))
    #expect(found?.scheme == scheme && found?.count ?? 0 == count)
  }

  @Test(arguments: [
    ("grpc://h", UpstreamScheme.http, 7), ("GRPCS://h", .https, 8), ("h:1", .http, 0), ("http://h", .http, 0),
  ])
  func `a URL of gRPC needs none`(url: String, scheme: UpstreamScheme, count: Int) throws {
    let found = try #require(GRPC.dialect.scheme(of: Array(url.utf8)))
    #expect(found.scheme == scheme && found.count == count)
  }

  @Test func `gRPC has the rows of nginx's module, under its own prefix`() {
    let names = GRPC.directives.map(\.name)
    #expect(Set(names).count == names.count && names.allSatisfy { $0.hasPrefix("grpc_") })
    #expect(
      names.contains("grpc_ssl_verify") && names.contains("grpc_read_timeout") && !names.contains("grpc_buffering"))
    let row = GRPC.directives.first { $0.name == "grpc_set_header" }
    #expect(
      row?.example == "grpc_set_header X-Client $ssl_client_s_dn;" && row?.initial.contains("TE trailers") == true)
    #expect(GRPC.directives.allSatisfy { !$0.contexts.isOfStream })
  }
}
