import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

/// An authority of `sallyport ca`, a server of it that takes its clients, and a door where they get their certificates.
private struct Door: EnrolmentPlace {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport

  private struct Answer: Decodable {
    let token: String
    let certificate: String
    let expires: String
  }

  /// `first`: what happens to the authority before the server starts.
  init(_ more: String = "", first: (Scene) async throws -> Void = { _ in }) async throws {
    scene = try Scene.ofTest()
    port = try scene.port()
    let scene = scene
    try await Self.makeAuthority(scene)
    try await first(scene)
    let apr1 = try await scene.succeed("openssl", "passwd", "-apr1", "wonderland")
    try scene.write("users", text: "alice:\(apr1)\nbob:{PLAIN}builder\n")
    daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
        ssl_client_certificate ca/ca.crt; ssl_crl ca/crl.pem; ssl_verify_client optional;
        auth_basic_user_file users;
        location = /enrol { enrolment on; enrolment_authority ca; auth_basic "devices"; \(more) }
        location /page { auth_basic "pages"; proxy_pass http://127.0.0.1:\(port); proxy_set_header Host x; }
        location /counts { auth_basic "counts"; metrics; }
        location / { return 200 "reused=$ssl_session_reused verify=$ssl_client_verify dn=$ssl_client_s_dn\\n"; }
      }
      """)
  }

  func ask(
    _ credentials: [String], device: String = "phone", passphrase: String = "long enough"
  ) async throws -> CurlResult {
    try await curl("/enrol", credentials + ["-d", "{\"device\": \"\(device)\", \"passphrase\": \"\(passphrase)\"}"])
  }

  /// The token; the PKCS#12 goes to NAME.p12, and what is in it to NAME.pem.
  func enrol(_ credentials: [String], as name: String, device: String = "phone") async throws -> String {
    let answer = try await ask(credentials, device: device)
    try #require(answer.status == 201, "\(answer.text)")
    #expect(answer["Content-Type"] == "application/json" && answer["Cache-Control"] == "no-store")
    let json = try JSONDecoder().decode(Answer.self, from: Data(answer.body))
    try scene.write("\(name).p12", Base64.decode(json.certificate))
    try await scene.succeed(
      "openssl", "pkcs12", "-in", "\(name).p12", "-passin", "pass:long enough", "-nodes", "-out", "\(name).pem")
    return json.token
  }

  /// One request by openssl s_client as who was enrolled.
  func resume(_ name: String, _ version: String, _ session: String...) async throws -> String {
    try await scene.run(
      "openssl",
      [
        "s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version, "-cert",
        "\(name).pem", "-key", "\(name).pem",
      ] + session, input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
    ).text
  }
}

@Suite(.staged) struct `The enrolment endpoint` {
  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `gives a device a certificate that counts at once, and no more once it is revoked, resumed or not`(
    version: String
  ) async throws {
    let door = try await Door()
    _ = try await door.enrol(["-u", "alice:wonderland"], as: "phone")
    let used = try await door.curl(
      "/", ["--cert-type", "P12", "--cert", door.scene.path("phone.p12") + ":long enough"])
    #expect(used.text == "reused=. verify=SUCCESS dn=CN=alice\n")
    #expect(try await door.resume("phone", version, "-sess_out", "session").contains("reused=. verify=SUCCESS"))
    #expect(
      try await door.resume("phone", version, "-sess_in", "session", "-sess_out", "session")
        .contains("reused=r verify=SUCCESS"))

    let revoked = try await door.scene.run(Sallyport.binary(), ["ca", "revoke", "ca", "alice"])
    #expect(revoked.status == 0)
    try await door.daemon.logged("reconfigured: ")
    let again = try await door.resume("phone", version, "-sess_in", "session")
    #expect(again.contains("400 Bad Request") && !again.contains("verify=SUCCESS"))
    let anew = try await door.curl("/", ["--cert", door.scene.path("phone.pem")])
    #expect(anew.status == 400 && anew.text.contains("The SSL certificate error"))
    let log = door.daemon.errorLog
    #expect(log.contains("issued to user \"alice\", device \"phone\""))
    #expect(!log.contains("wonderland") && !log.contains("long enough"))
  }

  @Test(Chromium.needed) func `gives a browser its certificate too`() async throws {
    let door = try await Door()
    _ = try await door.enrol(["-u", "alice:wonderland"], as: "laptop", device: "laptop")
    let url = "https://localhost:\(door.port)"
    let chromium = try await Chromium(
      door.scene, policies: #"{"AutoSelectCertificateForUrls": ["{\"pattern\": \"\#(url)\", \"filter\": {}}"]}"#)
    try await chromium.trust(door.scene.path("ca/ca.crt"))
    #expect(try await chromium.open("\(url)/").document.contains("verify=NONE"))
    try await chromium.take(door.scene.path("laptop.p12"), password: "long enough")
    let page = try await chromium.open("\(url)/")
    #expect(page.document.contains("verify=SUCCESS dn=CN=alice"), "\(page)")
  }

  @Test func `answers each fault with its status`() async throws {
    let door = try await Door()
    let known = ["-u", "alice:wonderland"]
    let get = try await door.curl("/enrol", known)
    #expect(get.status == 405 && get["Allow"] == "POST")
    let nobody = try await door.ask([])
    #expect(nobody.status == 401 && nobody["WWW-Authenticate"] == "Basic realm=\"devices\"")
    #expect(try await door.ask(["-u", "alice:wrong"]).status == 401)
    #expect(try await door.ask(known, passphrase: "short").status == 400)
    #expect(try await door.ask(known, device: "../x").status == 400)
    #expect(try await door.curl("/enrol", known + ["-d", "device=phone"]).status == 400)
    #expect(try await door.curl("/enrol", known + ["-d", String(repeating: "x", count: 20_000)]).status == 413)
    let chunked = [
      "-H", "Transfer-Encoding: chunked", "-d", "{\"device\": \"phone\", \"passphrase\": \"long enough\"}",
    ]
    #expect(try await door.curl("/enrol", known + chunked).status == 201)
    #expect(try await door.ask(known).status == 409)
    #expect(try await door.ask(known, device: "tablet").status == 201)
  }

  @Test func `takes the token for a renewal, and waits after too many wrong passwords`() async throws {
    let door = try await Door("enrolment_renew_before 400d; enrolment_failures 3 600s;")
    let token = try await door.enrol(["-u", "bob:builder"], as: "bob")
    let next = try await door.enrol(["-H", "Authorization: Bearer \(token)"], as: "next")
    #expect(next != token)
    let other = try await door.ask(["-H", "Authorization: Bearer \(token)"], device: "tablet")
    #expect(other.status == 401)
    for _ in 0..<3 { #expect(try await door.ask(["-u", "bob:wrong"]).status == 401) }
    let waiting = try await door.ask(["-u", "bob:builder"])
    #expect(waiting.status == 429 && Int(waiting["Retry-After"] ?? "").map { (1...600).contains($0) } == true)
    // Whoever comes from there waits.
    #expect(try await door.ask(["-u", "alice:wonderland"]).status == 429)
  }

  @Test func `gives one user so many devices, and says so as JSON`() async throws {
    let door = try await Door("enrolment_max_devices 2;")
    for device in ["phone", "tablet"] {
      #expect(try await door.ask(["-u", "bob:builder"], device: device).status == 201)
    }
    let third = try await door.ask(["-u", "bob:builder"], device: "watch")
    #expect(third.status == 403 && third["Content-Type"] == "application/json")
    #expect(third.text == "{\"error\": \"too many devices\", \"limit\": 2}\n")
    try await door.daemon.logged("[error]", "user \"bob\"", "\"watch\" is another one", "enrolment_max_devices")
    #expect(try await door.ask(["-u", "alice:wonderland"], device: "watch").status == 201)
  }

  @Test func `keeps no password waiting while enrolments wait for the authority`() async throws {
    let door = try await Door()
    let lock = open(door.scene.path("ca/lock"), O_RDWR | O_CLOEXEC)
    defer { close(lock) }
    try await until("the authority's lock") { flock(lock, LOCK_EX | LOCK_NB) == 0 }
    async let first = door.ask(["-u", "alice:wonderland"])
    async let second = door.ask(["-u", "bob:builder"])
    let open = "/proc/\(door.daemon.process.identifier)/fd"
    try await until("two enrolments to wait for the lock") {
      try FileManager.default.contentsOfDirectory(atPath: open).count { name in
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(open)/\(name)"))?.hasSuffix("/ca/lock") == true
      } >= 2
    }
    #expect(try await door.curl("/counts", ["-u", "alice:wonderland"]).status == 200)
    // Both wait still.
    #expect(door.scene.text("ca/index.txt").split(separator: "\n").count == 1)
    try #require(flock(lock, LOCK_UN) == 0)
    let statuses = try await [first.status, second.status]
    #expect(statuses == [201, 201])
  }

  @Test func `renews a list that nobody else renews, and forgets a token that is over`() async throws {
    let door = try await Door { scene in
      // Forty days old, with one to go.
      let times = try await scene.succeed(
        "sh", "-c", "for day in '-40 days' '+1 day'; do date -u -d \"$day\" +%Y%m%d%H%M%SZ; done"
      ).split(separator: "\n").map(String.init)
      try await scene.succeed(
        "openssl", "ca", "-config", "ca/openssl.cnf", "-gencrl", "-crl_lastupdate", times[0], "-crl_nextupdate",
        times[1], "-out", "ca/crl.pem")
      try scene.makeFolder("ca/tokens")
      try scene.write("ca/tokens/over", text: "0F\n")
    }
    try await door.daemon.logged("[notice]", "the revocation list was renewed")
    try await door.daemon.logged("[notice]", "reconfigured: generation 2")
    #expect(!FileManager.default.fileExists(atPath: door.scene.path("ca/tokens/over")))
    // A token that still counts is kept.
    _ = try await door.enrol(["-u", "bob:builder"], as: "bob")
    door.daemon.signal(SIGHUP)
    try await door.daemon.logged("[notice]", "reconfigured: generation 3")
    #expect(try await door.scene.succeed("ls", "ca/tokens").split(separator: "\n").count == 1)
  }

  @Test func `keeps its register whole beside the command`() async throws {
    let door = try await Door()
    try door.scene.makeFolder("out")
    let binary = try Sallyport.binary()
    async let command = door.scene.run(
      "sh",
      ["-c", "for i in $(seq 10); do '\(binary)' ca issue ca --client c$i --out out || exit 1; done"],
      within: .seconds(120))
    for number in 0..<10 { #expect(try await door.ask(["-u", "bob:builder"], device: "d\(number)").status == 201) }
    let result = try await command
    #expect(result.status == 0, "\(result.everything)")
    let lines = door.scene.text("ca/index.txt").split(separator: "\n")
    #expect(lines.count == 21 && Set(lines.map { $0.split(separator: "\t")[2] }).count == 21)
  }

  @Test func `is refused by check without its parts`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("users", text: "a:{PLAIN}b\n")
    func check(_ text: String) throws -> CheckedText {
      try scene.check(configuration("server { listen 127.0.0.1:1; location /e { enrolment on; \(text) } }"))
    }
    #expect(try check("").contains("\"enrolment\" without \"enrolment_authority\""))
    #expect(try check("enrolment_authority ca;").contains("\"enrolment\" without \"auth_basic\""))
    let access = "auth_basic x; auth_basic_user_file users;"
    #expect(try check("enrolment_authority nowhere; \(access)").contains("nowhere\" can't be opened"))
    let made = try await scene.run(Sallyport.binary(), ["ca", "init", "ca"])
    #expect(made.status == 0)
    let whole = try check("enrolment_authority ca; \(access)")
    #expect(whole.contains("is valid") && whole.contains("\"enrolment\" without TLS"))
    #expect(
      try check("enrolment_authority ca; \(access) metrics;").contains(
        "a location can have only one content handler"))
    #expect(try check("enrolment_authority ca; auth_basic x; auth_basic_user_file none;").contains("none"))
    #expect(try check("enrolment_authority ca; \(access) enrolment_failures 0;").contains("enrolment_failures"))
    #expect(try check("enrolment_authority ca; \(access) enrolment_max_devices 0;").contains("is not valid"))
    let endless = try check("enrolment_authority ca; \(access) enrolment_renew_before 365d;")
    #expect(endless.contains("is valid") && endless.contains("could renew at any time, without limit"))
  }
}

@Suite(.staged) struct `auth_basic` {
  @Test func `lets in who has the password, and challenges all others`() async throws {
    let door = try await Door()
    let nobody = try await door.curl("/page")
    #expect(nobody.status == 401 && nobody["WWW-Authenticate"] == "Basic realm=\"pages\"")
    #expect(try await door.curl("/page", ["-u", "alice:wrong"]).status == 401)
    #expect(try await door.curl("/page", ["-u", "nobody:x"]).status == 401)
    #expect(try await door.curl("/page", ["-H", "Authorization: Basic !"]).status == 401)
    #expect(try await door.curl("/page", ["-H", "Authorization: Bearer x"]).status == 401)
    #expect(try await door.curl("/counts", ["-u", "alice:wonderland"]).text.contains("sallyport_generation"))
    // Through to the upstream, body and all, once the password is known to be right.
    let posted = try await door.curl("/page", ["-u", "bob:builder", "-d", "text"])
    #expect(posted.status == 400 && posted.text.contains("plain HTTP request"))
  }

  @Test func `counts wrong passwords of a file that an enrolment guards, at whichever door they come`()
    async throws
  {
    let door = try await Door("enrolment_failures 3 600s;")
    for _ in 0..<2 { #expect(try await door.curl("/counts", ["-u", "alice:wrong"]).status == 401) }
    #expect(try await door.curl("/counts", ["-u", "alice:wonderland"]).status == 200)
    #expect(try await door.ask(["-u", "alice:wrong"]).status == 401)
    let waiting = try await door.curl("/counts", ["-u", "alice:wonderland"])
    #expect(waiting.status == 429 && Int(waiting["Retry-After"] ?? "").map { (1...600).contains($0) } == true)
    #expect(try await door.ask(["-u", "alice:wonderland"]).status == 429)
    try await door.daemon.logged("[error]", "user \"alice\": too many wrong passwords of this user or address")
  }

  @Test func `takes a changed file with the next request, and says when it is gone`() async throws {
    let door = try await Door()
    try door.scene.write("users", text: "carol:{PLAIN}new\n")
    #expect(try await door.curl("/counts", ["-u", "carol:new"]).status == 200)
    #expect(try await door.curl("/counts", ["-u", "alice:wonderland"]).status == 401)
    try FileManager.default.removeItem(atPath: door.scene.path("users"))
    #expect(try await door.curl("/counts", ["-u", "carol:new"]).status == 500)
    try await door.daemon.logged("users\": cannot be opened")
  }
}
