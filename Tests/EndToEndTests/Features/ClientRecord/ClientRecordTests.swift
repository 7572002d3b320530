import Crypto
@testable import Features
import Glibc
import TestSupport
import Testing

/// `client_record`, and what the commands say of it, beside real handshakes.
@Suite(.staged) struct `Clients that a daemon records` {
  private func record(_ scene: Scene, _ file: String = "who.clients") throws -> RecordedClients {
    try RecordedClients(reading: scene.bytes(file))
  }

  @Test func `the forecast names whom the next trust refuses, and it refuses them`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let next = try TestAuthority("Next")
    try scene.write("both.pem", text: cast.authority.root.certificate.pem + next.root.certificate.pem)
    try scene.write("next.pem", text: next.root.certificate.pem)
    let port = try scene.port()
    func text(_ ca: String, _ lines: String = "") -> String {
      configuration(
        """
        client_record who.clients;
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls.replacing("ca.pem", with: ca)) \(lines)
          location / { return 200 in; }
        }
        """)
    }
    let daemon = try await Sallyport.start(scene, text("both.pem"))
    var people: [IdentityFiles] = []
    for index in 0..<24 {
      let authority = index % 3 == 0 ? cast.authority : next
      let kind: TestAuthority.ClientKind = index % 8 == 1 ? .serverAuthOnly : index % 8 == 2 ? .viaIntermediate : .good
      people.append(try scene.identity("p\(index)", authority.client(kind, commonName: "p\(index)")))
    }
    func refused() async throws -> Set<String> {
      var found: Set<String> = []
      for (index, person) in people.enumerated() {
        let result = try await scene.curl(cast.to(port) + person.curl + ["https://localhost/"])
        if result.status != 200 { found.insert("CN=p\(index)") }
      }
      return found
    }
    let before = try await refused()
    #expect(before == ["CN=p1", "CN=p9", "CN=p17"])
    daemon.signal(SIGHUP)
    try await until("the record") { (try? record(scene).visits.count) == 24 }
    var status = stat()
    #expect(stat(scene.path("who.clients"), &status) == 0 && status.st_mode & 0o7777 == 0o600)

    try scene.write("next.conf", text: Sallyport.withUser(text("next.pem", "ssl_client_deny cn=p4;")))
    let check = try await scene.sallyport("check", scene.path("next.conf"), "--clients", scene.path("who.clients"))
    #expect(check.status == 2)
    // What comes later is told below.
    let lines = check.text.split(separator: "\n").dropFirst().prefix { $0.hasPrefix("  ") }.joined(separator: "\n")
    let predicted = Set(lines.matches(of: /CN=p\d+/).map { String($0.output) })
    try daemon.rewrite(text("next.pem", "ssl_client_deny cn=p4;"))
    daemon.signal(SIGHUP)
    try await until("the next trust") { try await refused().contains("CN=p4") }
    #expect(try await refused() == predicted.union(before))
    #expect(predicted.isDisjoint(with: before) && predicted.count == 8, "\(check.text)")
    // Whom a rule denies verifies.
    daemon.signal(SIGHUP)
    try await until("the rule in the record") {
      (try? record(scene).visits.values.count { $0.verdict == .ruled && !$0.reason.isEmpty }) == 1
    }

    let list = try await scene.sallyport("clients", scene.path("who.clients"), "--by", "issuer")
    #expect(list.status == 0 && list.text.hasPrefix("24 clients between "), "\(list.text)")
    #expect(list.text.contains("CN=Next Root") && list.text.contains("no clientAuth"))
  }

  @Test func `whom other groups and suites lock out is foretold by what the clients offered`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    func text(_ lines: String) -> String {
      configuration(
        """
        client_record who.clients;
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_protocols TLSv1.2 TLSv1.3; \(lines)
          location / { return 200 in; }
        }
        """)
    }
    let daemon = try await Sallyport.start(scene, text(""))
    let older = ["--tls-max", "1.2", "--ciphers"]
    let ways = [
      ["--curves", "X25519"], ["--curves", "P-384"], ["--curves", "P-384:X25519"], [],
      older + ["ECDHE-ECDSA-AES128-GCM-SHA256"], older + ["ECDHE-ECDSA-AES256-GCM-SHA384"],
    ]
    var people: [IdentityFiles] = []
    for index in ways.indices {
      people.append(try scene.identity("p\(index)", cast.authority.client(commonName: "p\(index)")))
    }
    func refused() async throws -> Set<String> {
      var found: Set<String> = []
      for (index, person) in people.enumerated() {
        let result = try await scene.curl(cast.to(port) + person.curl + ways[index] + ["https://localhost/"])
        if result.status != 200 { found.insert("CN=p\(index)") }
      }
      return found
    }
    #expect(try await refused() == [])
    daemon.signal(SIGHUP)
    try await until("the record") { (try? record(scene).visits.count) == ways.count }
    // The fourth has no suite, and the curve of both keys is none of the groups, which TLS 1.2 does not allow.
    let lines = "ssl_ecdh_curve secp384r1; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;"
    try scene.write("next.conf", text: Sallyport.withUser(text(lines)))
    let check = try await scene.sallyport("check", scene.path("next.conf"), "--clients", scene.path("who.clients"))
    let named = check.text.split(separator: "\n").dropFirst().prefix { $0.hasPrefix("  ") }.joined(separator: "\n")
    let lockedOut: Set = ["CN=p0", "CN=p4", "CN=p5"]
    #expect(Set(named.matches(of: /CN=p\d+/).map { String($0.output) }) == lockedOut, "\(check.text)")
    try daemon.rewrite(text(lines))
    daemon.signal(SIGHUP)
    try await until("the next groups") { try await refused().contains("CN=p0") }
    #expect(try await refused() == lockedOut)
  }

  @Test(arguments: [("127.0.0.1", "127.0.0.1"), ("cn=lb", "CN=lb")])
  func `who comes behind a front is recorded with the front, and each chain once`(line: String, name: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let balancer = try scene.identity("lb", cast.authority.client(commonName: "lb"))
    let front = try await FrontedProxy(
      scene, verify: "optional", fronts: [line], http: "client_record who.clients;")
    let people = [
      ("CN=alice", cast.alice.certified, 200),
      ("CN=bob", try cast.authority.client(.viaIntermediate, commonName: "bob"), 200),
      ("CN=carol", try cast.authority.client(.expired, commonName: "carol"), 400),
    ]
    // The second time, a chain that has verified is known.
    for _ in 0..<2 {
      for (_, shown, status) in people {
        let result = try await scene.curl(
          cast.to(front.port) + balancer.curl + FrontField.rfc9440.curl(shown) + ["https://localhost/head"])
        #expect(result.status == status)
      }
    }
    // What repeats is written at the end at the latest: two workers have seen the clients.
    front.daemon.signal(SIGTERM)
    try await until("the record") { (try? self.record(scene).visits.values.reduce(0) { $0 + $1.count }) == 12 }
    let record = try self.record(scene), relayed = record.visits.filter { !$0.key.front.isEmpty }
    #expect(
      relayed.count == people.count && relayed.keys.allSatisfy { $0.front.hasPrefix(name) && $0.name == "localhost" })
    for (subject, shown, status) in people {
      let sent = ([shown.certificate] + shown.chain).map(\.der)
      let visit = try #require(relayed.first { record.chain($0.key) == sent }?.value, "\(subject)")
      #expect((visit.admitted, visit.refused) == (status == 200 ? (2, 0) : (0, 2)) && visit.server == "localhost")
      #expect(visit.handshake == RecordedHandshake())
    }
    // The front itself has shaken hands six times.
    #expect(record.visits.filter { $0.key.front.isEmpty }.values.map(\.count) == [6])
    let other = try TestAuthority("Other")
    try scene.write("ca.pem", text: other.root.certificate.pem)
    let check = try await scene.sallyport(
      "check", scene.path("sallyport.conf"), "--clients", scene.path("who.clients"))
    #expect(check.status == 2 && check.text.contains(#/ CN=bob,.*, last visit /#), "\(check.text)")
    #expect(check.text.contains("), behind \(name)"), "\(check.text)")
  }
}
