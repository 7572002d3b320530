import Bytes
import Crypto
import TestSupport
import Testing

/// An authority of `sallyport ca`, and a server that enrols devices by EST.
private struct Station: EnrolmentPlace {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport

  init(_ more: String = "") async throws {
    scene = try Scene.ofTest()
    port = try scene.port()
    try await Self.makeAuthority(scene)
    try scene.write("users", text: "alice:{PLAIN}wonderland\nbob:{PLAIN}builder\n")
    daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
        ssl_client_certificate ca/ca.crt; ssl_crl ca/crl.pem; ssl_verify_client optional;
        location /.well-known/est/ {
          enrolment est; enrolment_authority ca; auth_basic "devices"; auth_basic_user_file users; \(more)
        }
        location / { return 200 "verify=$ssl_client_verify dn=$ssl_client_s_dn\\n"; }
      }
      """)
  }

  func est(
    _ operation: String, _ body: String, _ more: [String] = [], type: String = "application/pkcs10"
  ) async throws -> CurlResult {
    try await curl(
      "/.well-known/est/\(operation)", more + ["-H", "Content-Type: \(type)", "--data-binary", "@" + scene.path(body)])
  }

  /// Makes NAME.key and NAME.csr, the Base64 of a request.
  func request(_ name: String, _ subject: String, _ names: String? = nil) async throws {
    try await scene.succeed(
      "openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
      "\(name).key", "-subj", subject, "-addext", "subjectAltName=\(names ?? "URI:urn:device:phone")", "-outform",
      "DER",
      "-out", "\(name).der")
    try await scene.succeed("openssl", "base64", "-in", "\(name).der", "-out", "\(name).csr")
  }

  /// Writes NAME.crt from an answer, as a device with openssl does.
  func take(_ answer: CurlResult, as name: String) async throws {
    try #require(answer.status == 200, "\(answer.text)")
    try scene.write("\(name).p7", answer.body)
    try await scene.succeed("openssl", "base64", "-d", "-in", "\(name).p7", "-out", "\(name).p7b")
    try await scene.succeed(
      "openssl", "pkcs7", "-inform", "DER", "-in", "\(name).p7b", "-print_certs", "-out", "\(name).crt")
  }
}

@Suite(.staged) struct `Enrolment by EST` {
  private let alice = ["-u", "alice:wonderland"]

  @Test func `a device with openssl and curl gets its certificate, uses it, and renews it by showing it`() async throws
  {
    let station = try await Station("enrolment_lifetime 24h; enrolment_renew_before 23h59m59s;")
    let authorities = try await station.curl("/.well-known/est/cacerts")
    #expect(authorities["Content-Type"] == "application/pkcs7-mime")
    #expect(authorities["Content-Transfer-Encoding"] == "base64")
    try await station.take(authorities, as: "ca-bag")
    let root = try Certificate.first(inPEM: station.scene.text("ca/ca.crt"))
    #expect(try Certificate.all(inPEM: station.scene.text("ca-bag.crt")) == [root])

    try await station.request("phone", "/CN=alice")
    let answer = try await station.est("simpleenroll", "phone.csr", alice)
    #expect(answer["Content-Type"] == "application/pkcs7-mime; smime-type=certs-only")
    #expect(answer["Content-Transfer-Encoding"] == "base64" && answer["Cache-Control"] == "no-store")
    try await station.take(answer, as: "phone")
    let identity = ["--cert", station.scene.path("phone.crt"), "--key", station.scene.path("phone.key")]
    #expect(try await station.curl("/", identity).text == "verify=SUCCESS dn=CN=alice\n")
    try await station.daemon.logged("issued to user \"alice\", device \"phone\", for its own key")

    // It can be renewed at once: a second of its life need be over.
    try await station.request("later", "/CN=alice")
    try await until("the renewal") {
      let renewed = try await station.est("simplereenroll", "later.csr", identity)
      if renewed.status == 409 {
        #expect(renewed["Retry-After"] != nil)
        return false
      }
      try await station.take(renewed, as: "later")
      return true
    }
    let later = ["--cert", station.scene.path("later.crt"), "--key", station.scene.path("later.key")]
    #expect(try await station.curl("/", later).text == "verify=SUCCESS dn=CN=alice\n")
    let revoked = try await station.scene.run(Sallyport.binary(), ["ca", "revoke", "ca", "alice"])
    #expect(revoked.status == 0)
    try await station.daemon.logged("reconfigured: ")
    #expect(try await station.est("simplereenroll", "later.csr", later).status == 400)
  }

  @Test func `nobody gets another's name, and no request without its proof`() async throws {
    let station = try await Station()
    try await station.request("other", "/CN=bob")
    #expect(try await station.est("simpleenroll", "other.csr", alice).status == 403)
    try await station.daemon.logged("no certificate for user \"alice\": the request's subject is CN=bob")
    try await station.request("names", "/CN=alice", "DNS:www.example.com")
    #expect(try await station.est("simpleenroll", "names.csr", alice).status == 403)
    try await station.request("phone", "/CN=alice")
    var broken = station.scene.bytes("phone.der")
    broken[broken.count - 2] ^= 1
    try station.scene.write("broken.csr", text: Base64.encode(broken))
    #expect(try await station.est("simpleenroll", "broken.csr", alice).status == 400)
    try station.scene.write("huge.csr", [UInt8](repeating: 0x41, count: 1 << 20))
    #expect(try await station.est("simpleenroll", "huge.csr", alice).status == 413)
    try station.scene.write("junk.csr", text: "hello")
    #expect(try await station.est("simpleenroll", "junk.csr", alice).status == 400)
    let types = ["text/plain", "application/x-www-form-urlencoded", "application/pkcs10x", "multipart/mixed"]
    for type in types {
      #expect(try await station.est("simpleenroll", "phone.csr", alice, type: type).status == 415)
    }
    #expect(try await station.est("simpleenroll", "phone.csr").status == 401)
    #expect(try await station.est("simpleenroll", "phone.csr", ["-u", "alice:wrong"]).status == 401)
    #expect(try await station.est("simplereenroll", "phone.csr", alice).status == 403)
    #expect(try await station.est("fullcmc", "phone.csr", alice).status == 404)
    #expect(try await station.est("cacerts", "phone.csr").status == 405)
    #expect(try await station.curl("/.well-known/est/simpleenroll", alice).status == 405)
    // The client's own request still passes.
    let good = try await station.est("simpleenroll", "phone.csr", alice, type: "Application/PKCS10; charset=x")
    try await station.take(good, as: "phone")
    let again = try await station.est("simpleenroll", "phone.csr", alice)
    #expect(again.status == 409 && again["Retry-After"] != nil)
  }

  @Test func `a certificate of another authority renews nothing`() async throws {
    let station = try await Station()
    let stranger = try TestAuthority()
    let client = try station.scene.identity("stranger", stranger.client())
    try await station.request("phone", "/CN=alice")
    #expect(try await station.est("simplereenroll", "phone.csr", client.curl).status == 400)
    // One that the same authority issued by hand is none of a device.
    let made = try await station.scene.run(Sallyport.binary(), ["ca", "issue", "ca", "--client", "alice"])
    try #require(made.status == 0, "\(made.everything)")
    let byHand = ["--cert", station.scene.path("alice.crt"), "--key", station.scene.path("alice.key")]
    #expect(try await station.est("simplereenroll", "phone.csr", byHand).status == 403)
    try await station.daemon.logged("is not one that an enrolment issued")
  }
}
