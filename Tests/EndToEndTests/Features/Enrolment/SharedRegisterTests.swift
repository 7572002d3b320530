import Foundation
import Glibc
import TestSupport
import Testing

/// Machines with one authority, whose register is in a database. Each has its own folder of it, and enrols.
private struct SharedRegister {
  let scene: Scene
  let database: PostgresServer
  let uri: String
  private(set) var daemons: [Sallyport] = []
  private(set) var ports: [UInt16] = []

  static let users = "alice:{PLAIN}wonderland\n"

  /// `more`: in the location that enrols. `isTLS`: the machines reach the database by TCP with TLS, as alice.
  init(machines: Int, _ more: String = "", isTLS: Bool = false) async throws {
    scene = try Scene.ofTest()
    if isTLS {
      database = try await PostgresServer.start(scene, identity: Cast(scene).server)
      _ = try await database.makeDatabase("alice")
      uri =
        "postgresql://alice@localhost:\(database.port)/alice?sslmode=verify-full&sslrootcert=\(scene.path("ca.pem"))"
        + "&sslcert=\(scene.path("alice.pem"))&sslkey=\(scene.path("alice.key"))"
      chmod(scene.path("alice.key"), 0o600)
    } else {
      database = try await PostgresServer.start(scene)
      uri = try await database.makeDatabase("sallyport")
    }
    try scene.write("users", text: Self.users)
    _ = try await AuthorityCast(scene, folder: "ca0", "--store", uri)
    try await scene.succeed(Sallyport.binary(), "ca", "issue", scene.path("ca0"), "--server", "localhost")
    for machine in 0..<machines {
      if machine > 0 { try await scene.succeed("cp", "-a", scene.path("ca0"), scene.path("ca\(machine)")) }
      let port = try scene.port()
      daemons.append(try await Sallyport.start(scene, settings(machine, port, more), name: Self.name(machine)))
      ports.append(port)
    }
  }

  private static func name(_ machine: Int) -> String { machine == 0 ? "sallyport" : "machine\(machine)" }
  func log(_ machine: Int) -> String { scene.text(machine == 0 ? "error.log" : "\(Self.name(machine)).log") }

  private func settings(_ machine: Int, _ port: UInt16, _ more: String) -> String {
    let folder = "ca\(machine)"
    let text = configuration(
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
        ssl_client_certificate \(folder)/ca.crt; ssl_crl \(folder)/crl.pem; ssl_verify_client optional;
        location = /enrol {
          enrolment on; enrolment_authority \(folder); enrolment_max_devices 1000; \(more)
          auth_basic "devices"; auth_basic_user_file users;
        }
        location / { return 200 "verify=$ssl_client_verify\\n"; }
      }
      """)
    guard machine > 0 else { return text }
    return text.replacing("sallyport.pid", with: "\(Self.name(machine)).pid")
      .replacing("error.log", with: "\(Self.name(machine)).log")
  }

  func curl(_ machine: Int, _ path: String, _ more: [String]) async throws -> CurlResult {
    try await scene.curl(
      ["--cacert", scene.path("ca0/ca.crt"), "--resolve", "localhost:\(ports[machine]):127.0.0.1"] + more
        + ["https://localhost:\(ports[machine])\(path)"])
  }

  func ask(_ machine: Int, _ credentials: [String] = ["-u", "alice:wonderland"], device: String) async throws
    -> CurlResult
  {
    try await curl(
      machine, "/enrol", credentials + ["-d", "{\"device\": \"\(device)\", \"passphrase\": \"long enough\"}"])
  }

  private struct Answer: Decodable {
    let token: String
    let certificate: String
  }

  /// Takes the certificate of an answer to NAME.pem. Returns the token.
  func take(_ answer: CurlResult, as name: String) async throws -> String {
    let json = try JSONDecoder().decode(Answer.self, from: Data(answer.body))
    try scene.write("\(name).p12", Array(Data(base64Encoded: json.certificate) ?? Data()))
    try await scene.succeed(
      "openssl", "pkcs12", "-in", "\(name).p12", "-passin", "pass:long enough", "-nodes", "-out", "\(name).pem")
    return json.token
  }

  func serial(_ name: String) async throws -> String {
    let text = try await scene.succeed("openssl", "x509", "-in", "\(name).pem", "-noout", "-serial")
    return String(text.trimmingCharacters(in: .newlines).dropFirst("serial=".count))
  }

  struct Listed: Decodable {
    let serial: String
    let san: [String]
    let status: String
  }

  func list(_ machine: Int = 0) async throws -> [Listed] {
    let text = try await scene.succeed(Sallyport.binary(), "ca", "list", scene.path("ca\(machine)"), "--json")
    return try JSONDecoder().decode([Listed].self, from: Data(text.utf8))
  }

  func ca(_ command: String, _ machine: Int, _ arguments: String...) async throws -> ToolResult {
    try await scene.run(Sallyport.binary(), ["ca", command, scene.path("ca\(machine)")] + arguments)
  }
}

@Suite(.staged, .enabled(if: PostgresServer.isInstalled, "PostgreSQL is not installed"))
struct `A register in PostgreSQL` {
  @Test func `three machines enrol twenty devices each at once, and every serial is in the register once`() async throws
  {
    let register = try await SharedRegister(machines: 3)
    let answers = try await withThrowingTaskGroup(of: CurlResult.self) { group in
      for machine in 0..<3 {
        for device in 0..<20 {
          group.addTask { try await register.ask(machine, device: "d\(machine)-\(device)") }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers.count == 60 && answers.allSatisfy { $0.status == 201 }, "\(answers.map(\.status))")
    let listed = try await register.list(1)
    #expect(Set(listed.map(\.serial)).count == 61 && listed.count == 61, "one is the server's")
    let devices = Set(listed.flatMap(\.san).filter { $0.hasPrefix("URI:urn:device:") })
    #expect(devices.count == 60)
    // A device of one machine is known at the next, also when they are asked at once.
    let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
      for request in 0..<9 { group.addTask { try await register.ask(request % 3, device: "same").status } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(statuses.sorted() == [201] + Array(repeating: 409, count: 8))
  }

  @Test func `nobody gets a certificate that is not in the register, though a machine and the database are killed`()
    async throws
  {
    let register = try await SharedRegister(machines: 3)
    let answers = try await withThrowingTaskGroup(of: (String, CurlResult)?.self) { group in
      for machine in 0..<3 {
        for device in 0..<20 {
          group.addTask {
            let name = "d\(machine)-\(device)"
            // A connection that is cut in the middle is an answer, too: none.
            guard let answer = try? await register.ask(machine, device: name) else { return nil }
            return (name, answer)
          }
        }
      }
      var answers: [(String, CurlResult)] = []
      var count = 0
      for try await answer in group {
        if let answer { answers.append(answer) }
        count += 1
        if count == 10 { register.daemons[2].process.signal(SIGKILL) }
        if count == 20 { try await register.database.crash() }
        if count == 30 { try await register.database.restart() }
      }
      return answers
    }
    let issued = answers.filter { $0.1.status == 201 }
    #expect(issued.count >= 10 && issued.count < 60)
    #expect(answers.allSatisfy { [0, 201, 503].contains($0.1.status) }, "\(answers.map(\.1.status))")
    var serials: Set<String> = []
    for (name, answer) in issued {
      _ = try await register.take(answer, as: name)
      serials.insert(try await register.serial(name))
    }
    #expect(serials.count == issued.count)
    #expect(serials.isSubset(of: Set(try await register.list().map(\.serial))))
    // They enrol as before.
    try await until("the next enrolment") { try await register.ask(1, device: "after").status == 201 }
  }

  @Test(arguments: [false, true])
  func `what one machine revokes, the others refuse, and a token is good at each of them`(isTLS: Bool) async throws {
    let register = try await SharedRegister(machines: 2, "enrolment_renew_before 365d;", isTLS: isTLS)
    let token = try await register.take(try await register.ask(0, device: "phone"), as: "phone")
    #expect(try await register.curl(1, "/", ["--cert", register.scene.path("phone.pem")]).text == "verify=SUCCESS\n")
    let renewed = try await register.ask(1, ["-H", "Authorization: Bearer \(token)"], device: "phone")
    #expect(renewed.status == 201, "\(renewed.text)")
    _ = try await register.take(renewed, as: "next")

    #expect(try await register.ca("revoke", 0, "alice").status == 0)
    try await until("the other machine to refuse it") {
      try await register.curl(1, "/", ["--cert", register.scene.path("next.pem")]).status == 400
    }
    #expect(register.log(1).contains("the revocation list of another machine was fetched"))
    #expect(try await register.ask(1, ["-H", "Authorization: Bearer \(token)"], device: "phone").status == 401)
    #expect(try await register.ca("crl", 1, "--fetch").text.contains("is up to date"))
  }

  @Test(arguments: ["killed", "paused"])
  func `without the database a device gets 503 with Retry-After, requests are served, and the log says it once`(
    fault: String
  ) async throws {
    let register = try await SharedRegister(machines: 1)
    #expect(try await register.ask(0, device: "before").status == 201)
    if fault == "killed" { try await register.database.crash() } else { try await register.database.signal(SIGSTOP) }
    let refused = try await register.ask(0, device: "during")
    #expect(refused.status == 503 && refused["Retry-After"] == "5", "\(refused.text)")
    #expect(try await register.curl(0, "/", []).text == "verify=NONE\n")
    try await register.daemons[0].logged("what other machines revoke is not known here")
    let path = register.scene.path("sallyport.conf")
    let health = try await register.scene.sallyport("health", "--config", path)
    #expect(health.status == 3 && health.text.contains("WARN    register: "), "\(health.everything)")
    if fault == "killed" { try await register.database.restart() } else { try await register.database.signal(SIGCONT) }
    try await register.daemons[0].logged("the revocation list can be fetched again")
    try await until("an enrolment") { try await register.ask(0, device: "after").status == 201 }
    // The upkeep of the authority, which may have failed meanwhile, is tried again each minute.
    try await until("no word of it by health", within: .seconds(90)) {
      try await !register.scene.sallyport("health", "--config", path).text.contains("register: ")
    }
    #expect(register.log(0).ranges(of: "what other machines revoke is not known here").count == 1)
    #expect(try await register.list().count { $0.san.contains("URI:urn:device:during") } <= 1)
  }

  @Test func `a register moves from the folder into a database and back, with revocations and tokens`() async throws {
    let scene = try Scene.ofTest(), database = try await PostgresServer.start(scene)
    let uri = try await database.makeDatabase("sallyport"), ca = try await AuthorityCast(scene)
    for name in ["u1", "u2"] { try await ca.succeed("ca", ["issue", scene.path("ca"), "--client", name]) }
    try await ca.succeed("ca", ["revoke", scene.path("ca"), "u2"])
    let digest = String(repeating: "ab", count: 32)
    let serial =
      try await ca.succeed("ca", ["list", scene.path("ca")]).split(separator: " ").first.map(String.init) ?? ""
    try scene.makeFolder("ca/tokens")
    try scene.write("ca/tokens/\(digest)", text: "\(serial)\n")
    let before = try await ca.succeed("ca", ["list", scene.path("ca")])

    #expect(try await ca.ca("migrate", "--store", uri).text.contains("the register with 2 certificates"))
    #expect(try await ca.succeed("ca", ["list", scene.path("ca")]) == before)
    #expect(access(scene.path("ca/index.txt"), F_OK) != 0)
    #expect(try await ca.ca("migrate", "--store", uri).everything.contains("is in a database already"))
    // Another machine issues there meanwhile.
    try await scene.succeed("cp", "-a", scene.path("ca"), scene.path("other"))
    try await ca.succeed("ca", ["issue", scene.path("other"), "--client", "u3"])

    #expect(try await ca.ca("migrate", "--to-folder").text.contains("the register with 3 certificates"))
    let after = try await ca.succeed("ca", ["list", scene.path("ca")])
    #expect(after.hasPrefix(before.trimmingCharacters(in: .newlines)) && after.contains("CN=u3"))
    #expect(scene.text("ca/tokens/\(digest)") == "\(serial)\n")
    let moved = try await ca.succeed("openssl", ["crl", "-in", scene.path("ca/crl.pem"), "-noout", "-text"])
    #expect(moved.contains("Revoked Certificates"))
    for arguments in [["issue", "other", "--client", "u4"], ["list", "other"], ["crl", "other", "--fetch"]] {
      let result = try await scene.run(Sallyport.binary(), ["ca"] + arguments)
      #expect(result.status == 1 && result.everything.contains("was moved to the folder"), "\(result.everything)")
    }
    // And openssl works with it again.
    try await ca.openssl("ca", "-config", scene.path("ca/openssl.cnf"), "-gencrl", "-out", scene.path("list.pem"))

    try await ca.succeed("ca", ["migrate", scene.path("ca"), "--store", uri])
    #expect(try await ca.succeed("ca", ["list", scene.path("other")]) == after)
  }

  @Test func `a database that came from a backup takes nothing back: what crl.pem lists stays revoked`() async throws {
    let register = try await SharedRegister(machines: 0)
    let name = register.scene.path("alice.crt")
    try await register.scene.succeed(
      Sallyport.binary(), "ca", "issue", register.scene.path("ca0"), "--client", "alice", "--out", register.scene.folder
    )
    #expect(access(name, F_OK) == 0)
    let backup = try await register.database.dump("sallyport")
    #expect(try await register.ca("revoke", 0, "alice").status == 0)
    try await register.database.restore("sallyport", backup)
    #expect(try await register.list().contains { $0.status == "revoked" } == false)
    let fetched = try await register.ca("crl", 0, "--fetch")
    #expect(fetched.status == 1 && fetched.everything.contains("the database came from a backup"))
    #expect(try await register.ca("upkeep", 0).status == 0)
    #expect(try await register.list().count { $0.status == "revoked" } == 1)
    #expect(try await register.ca("crl", 0, "--fetch").text.contains("is up to date"))
  }

  @Test func `whoever can write to the tables can't forge a revocation list or a certificate`() async throws {
    let register = try await SharedRegister(machines: 0), scene = register.scene
    _ = try await AuthorityCast(scene, folder: "other")
    let before = scene.text("ca0/crl.pem")
    let forged = scene.text("other/crl.pem"), stranger = scene.text("other/ca.crt")
    try await register.database.ask(
      "update sallyport_authority set list = '\(forged)', list_number = 99", of: "sallyport")
    for arguments in [["crl", "ca0", "--fetch"], ["issue", "ca0", "--client", "x"], ["upkeep", "ca0"]] {
      let result = try await scene.run(Sallyport.binary(), ["ca"] + arguments)
      #expect(
        result.status == 1 && result.everything.contains("is not signed by CN=sallyport CA"), "\(result.everything)")
    }
    #expect(scene.text("ca0/crl.pem") == before && access(scene.path("x.crt"), F_OK) != 0)
    try await register.database.ask("update sallyport_certificate set certificate = '\(stranger)'", of: "sallyport")
    let listed = try await register.ca("list", 0)
    #expect(listed.status == 1 && listed.everything.contains("is not that certificate of CN=sallyport CA"))
    try await register.database.ask("update sallyport_authority set format = 2", of: "sallyport")
    #expect(try await register.ca("list", 0).everything.contains("this sallyport knows format 1"))
  }

  @Test func `over TLS a wrong CA, a wrong name and a key of a stranger get no session`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let database = try await PostgresServer.start(scene, identity: cast.server)
    _ = try await database.makeDatabase("alice")
    func uri(_ host: String, _ ca: String, _ who: String) -> String {
      "postgresql://alice@\(host):\(database.port)/alice?sslmode=verify-full&sslrootcert=\(scene.path(ca))"
        + "&sslcert=\(scene.path("\(who).pem"))&sslkey=\(scene.path("\(who).key"))"
    }
    func attempt(_ uri: String) async throws -> ToolResult {
      try await scene.run(
        Sallyport.binary(), ["ca", "init", scene.path("ca\(Int.random(in: 0..<1 << 40))"), "--store", uri])
    }
    chmod(scene.path("alice.key"), 0o600)
    let whole = try await attempt(uri("localhost", "ca.pem", "alice"))
    #expect(whole.status == 0, "\(whole.everything)")
    try scene.write("other.pem", text: try AuthorityCast.endedRoot())
    for (wrong, words) in [
      (uri("localhost", "other.pem", "alice"), "certificate verify failed"),
      (uri("other.example", "ca.pem", "alice") + "&hostaddr=127.0.0.1", "does not match host name"),
      (uri("localhost", "ca.pem", "nobody"), "connection requires a valid client certificate"),
    ] {
      let result = try await attempt(wrong)
      #expect(result.status == 1 && result.everything.contains(words), "\(result.everything)")
    }
    for (unsafe, words) in [
      ("postgresql://a@db.example.com/x", "db.example.com without sslmode=verify-full"),
      ("postgresql://a@db.example.com/x?sslmode=require", "db.example.com without sslmode=verify-full"),
      ("postgresql://a@localhost,192.0.2.1/x", "192.0.2.1 without sslmode=verify-full"),
      ("postgresql://a@localhost/x?hostaddr=192.0.2.1", "192.0.2.1 without sslmode=verify-full"),
      ("postgresql://a@/x?service=elsewhere", "takes the address from another file"),
      ("http://localhost", "expected postgresql://USER@HOST/DATABASE"),
      ("postgresql://localhost:none/x", "invalid integer value"),
    ] {
      let result = try await attempt(unsafe)
      #expect(result.status == 1 && result.everything.contains(words), "\(unsafe): \(result.everything)")
    }
  }
}
