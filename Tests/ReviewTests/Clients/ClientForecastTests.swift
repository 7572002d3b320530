import ConfigurationSupport
import Crypto
import Glibc
import TestSupport
import Testing
import Transport

@testable import Features
@testable import Loading
@testable import Review
@testable import TLS
@testable import Traffic

/// What `sallyport check --clients` predicts, beside what the same configuration does with the same clients.
@Suite struct `Yesterday's clients, and tomorrow's trust` {
  private let old: TestAuthority, next: TestAuthority
  private let key: PrivateKey
  private let now = Int64(time(nil))
  private static let day: Int64 = 86_400

  init() throws {
    (old, next, key) = (try TestAuthority("Old"), try TestAuthority("Next"), try .generate())
  }

  private func certificate(
    _ name: String, _ authority: CertifiedKey, usages: [CertificateBuilder.ExtendedKeyUsage] = [.clientAuth],
    change: (inout CertificateBuilder) -> Void = { _ in }
  ) throws -> Certificate {
    var builder = CertificateBuilder(commonName: name, .leaf(usages))
    change(&builder)
    return try builder.signed(by: authority, key: key).certificate
  }

  private func add(
    _ chain: [Certificate], _ record: inout RecordedClients, _ verdict: RecordedVerdict = .verified,
    listener: String = "127.0.0.1:8443", name: String = "a.test", front: String = "", version: String = "TLSv1.3",
    offer: (groups: String, signatures: String, ciphers: String) = ("", "", "")
  ) {
    var visit = RecordedVisit(at: now - 3600, verdict)
    visit.count(at: now - 60, verdict, reason: "", isResumed: false)
    visit.handshake.version = version
    (visit.handshake.groups, visit.handshake.signatures, visit.handshake.ciphers) = offer
    let identities = chain.map { record.add(certificate: $0.der) }
    record.add(visit, of: .init(chain: identities, listener: listener, name: name, isStream: false, front: front))
  }

  private static func text(_ lines: String, ca: String = "next.pem", rest: String = "") -> String {
    """
    events {}
    http {
      server {
        listen 127.0.0.1:8443 ssl; server_name a.test; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate \(ca); ssl_verify_client on; \(lines)
        location / { return 200; }
      }
      \(rest)
    }
    """
  }

  /// Writes what the configurations name.
  private func prepare(_ scene: Scene) throws {
    _ = try scene.identity("server", old.server(names: ["a.test"]))
    try scene.write("old.pem", text: old.root.certificate.pem)
    try scene.write("next.pem", text: next.root.certificate.pem)
    try scene.write("both.pem", text: old.root.certificate.pem + next.root.certificate.pem)
  }

  private func forecast(
    _ record: RecordedClients, _ scene: Scene, _ text: String, at moment: Int64? = nil
  ) throws -> ClientForecast {
    try ClientForecast(record, by: scene.write("new.conf", text: text), at: moment, now: now)
  }

  /// Has the configuration serve each client in memory. Returns the names of those who don't get 200.
  private func refused(
    _ clients: [Certificate], _ scene: Scene, _ text: String
  ) throws -> Set<String> {
    let shared = SharedState(features: Features.all), trace = ExplainTrace()
    let (generation, _) = try Explanation.load(scene.write("new.conf", text: text), sharing: shared, trace)
    let stage = try RequestExplanation.Stage(generation, sharing: shared, trace)
    var names: Set<String> = []
    for client in clients {
      var request = ExplainedRequest(
        method: "GET", usesTLS: true, host: "a.test", port: 8443, target: "/",
        client: .ipv4(address: 0x7F00_0001, port: 40_000))
      request.certificates = [client]
      try RequestExplanation(request, on: stage).run()
      let isServed = trace.take().contains { $0.label == "status" && $0.text.hasPrefix("200") }
      if !isServed { names.insert(client.subject.rfc2253) }
    }
    return names
  }

  @Test func `a rotation with 10,000 clients: whom the forecast names is whom the configuration refuses`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients(), clients: [Certificate] = []
      for index in 0..<10_000 {
        let name = "client \(index)"
        // One of 100 is left behind, one of 250 is weak, one of 500 is no client, one of 1000 is revoked or denied.
        let client: Certificate
        if index % 100 == 7 {
          client = try certificate(name, old.root)
        } else if index % 250 == 11 {
          client = try certificate(name, next.root) { $0.signatureDigest = .sha1 }
        } else if index % 500 == 13 {
          client = try certificate(name, next.root, usages: [.serverAuth])
        } else if index % 1000 == 17 {
          client = try certificate("denied \(index)", next.root)
        } else {
          client = try certificate(name, next.root)
        }
        clients.append(client)
        add([client], &record)
      }
      let revoked = (0..<10).map { clients[$0 * 1000 + 19] }
      try scene.write("crl.pem", text: RevocationListBuilder(revoking: revoked).pem(signedBy: next.root))
      let text = Self.text("ssl_crl crl.pem; ssl_client_deny \"cn=denied **\"; ssl_client_allow cn=**;")
      let forecast = try forecast(record, scene, text)
      let predicted = Set(forecast.refusals.map(\.name))
      // 100 of the old CA, 40 by SHA-1, 20 not for clients, 10 denied, 10 revoked.
      #expect(predicted.count == 180)
      #expect(try predicted == refused(clients, scene, text))
      #expect(forecast.hasRefused)
      let first = try #require(forecast.lines.first)
      #expect(first.hasPrefix("180 of 10000 clients that came since "), "\(first)")
      let reasons = Dictionary(grouping: forecast.refusals, by: \.reason).mapValues(\.count)
      #expect(reasons.first { $0.key.contains("lacks clientAuth") }?.value == 20, "\(reasons)")
      #expect(reasons.first { $0.key.hasPrefix("certificate revoked") }?.value == 10, "\(reasons)")
      #expect(reasons.filter { $0.key.hasPrefix("denied by a rule") }.values.reduce(0, +) == 10, "\(reasons)")
    }
  }

  @Test func `at a date, and from which dates on more will be refused`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      let soon = now + 10 * Self.day, later = now + 20 * Self.day
      for (name, end) in [("soon", soon), ("later", later), ("long", now + 900 * Self.day)] {
        add([try certificate(name, next.root) { $0.notAfter = end }], &record)
      }
      let text = Self.text("")
      let today = try forecast(record, scene, text)
      #expect(!today.hasRefused)
      // The end of the root comes after a year, and then nobody is left.
      let root = try #require(next.root.certificate.notAfter.seconds)
      #expect(
        today.laterRefusals == [
          soon - soon % Self.day: ["CN=soon"], later - later % Self.day: ["CN=later"],
          root - root % Self.day: ["CN=long"],
        ])
      let then = try forecast(record, scene, text, at: now + 15 * Self.day)
      #expect(then.refusals.map(\.name) == ["CN=soon"])
      #expect(then.refusals.allSatisfy { $0.reason.contains("expired") })
    }
  }

  @Test func `a list that ends refuses everybody, unless it is renewed; it still revokes`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      let (alice, bob) = (try certificate("alice", next.root), try certificate("bob", next.root))
      for one in [alice, bob] { add([one], &record) }
      let list = RevocationListBuilder(revoking: [bob], days: 5)
      try scene.write("crl.pem", text: list.pem(signedBy: next.root))
      let text = Self.text("ssl_crl crl.pem;")
      let today = try forecast(record, scene, text)
      #expect(today.refusals.map(\.name) == ["CN=bob"])
      #expect(today.endingLists == [list.nextUpdate - list.nextUpdate % Self.day: 1])
      #expect(today.lines.contains { $0.contains("unless the revocation list that ends then is renewed") })
      let then = try forecast(record, scene, text, at: now + 30 * Self.day)
      #expect(then.refusals.map(\.name) == ["CN=bob"])
    }
  }

  @Test func `each is judged where it came: by name, listener, version and pins`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      let pinned = try certificate("pinned", next.root)
      add([try certificate("old here", old.root)], &record)
      add([try certificate("old there", old.root)], &record, name: "b.test")
      add([try certificate("gone", old.root)], &record, listener: "127.0.0.1:9999", name: "c.test")
      add([try certificate("slow", next.root)], &record, version: "TLSv1.2")
      add([pinned], &record, name: "p.test")
      // Another key than the pinned one.
      add(
        [
          try CertificateBuilder(commonName: "unpinned", .leaf([.clientAuth])).signed(by: next.root, key: .generate())
            .certificate
        ],
        &record, name: "p.test")
      let text = Self.text(
        "ssl_protocols TLSv1.3;",
        rest: """
          server { listen 127.0.0.1:8443 ssl; server_name b.test; ssl_certificate server.pem; ssl_certificate_key server.key;
            ssl_client_certificate old.pem; ssl_verify_client on; ssl_protocols TLSv1.3; return 200; }
          server { listen 127.0.0.1:8443 ssl; server_name p.test; ssl_certificate server.pem; ssl_certificate_key server.key;
            ssl_client_certificate next.pem; ssl_verify_client on; ssl_protocols TLSv1.3;
            ssl_client_pin \(Pin.spelling(publicKeyDigest: pinned.spkiSHA256)); return 200; }
          """)
      let found = try forecast(record, scene, text).refusals
      #expect(Set(found.map(\.name)) == ["CN=old here", "CN=gone", "CN=slow", "CN=unpinned"], "\(found)")
      #expect(found.contains { $0.name == "CN=gone" && $0.reason.hasPrefix("no listener takes connections to") })
      #expect(found.contains { $0.name == "CN=slow" && $0.reason.contains("TLSv1.2, which ssl_protocols leaves out") })
    }
  }

  @Test func `who has no group, suite or signature algorithm in common is refused; what is not known is said`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      func add(
        _ name: String, _ groups: String, _ signatures: String, version: String = "TLSv1.3", ciphers: String = ""
      ) throws {
        self.add(
          [try certificate(name, next.root)], &record, version: version, offer: (groups, signatures, ciphers))
      }
      let usual = "ecdsa_secp256r1_sha256:rsa_pss_rsae_sha256:rsa_pkcs1_sha256"
      try add("fine", "0x2a2a:X25519:secp384r1", usual)
      try add("late", "0x7a7a:0x11ec:X25519", usual)
      try add("deaf", "secp384r1", "0x0b0b:rsa_pss_rsae_sha256")
      try add("unknown", "", "")
      try add(
        "suites", "X25519:secp384r1:prime256v1", usual, version: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256")
      try add(
        "older", "X25519:secp384r1:prime256v1", usual, version: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384")
      func reasons(_ lines: String) throws -> [String: String] {
        let found = try forecast(record, scene, Self.text("ssl_protocols TLSv1.2 TLSv1.3; \(lines)")).refusals
        return Dictionary(uniqueKeysWithValues: found.map { ($0.name, $0.reason) })
      }
      let deaf = "no signature algorithm in common"
      #expect(try reasons("") == ["CN=deaf": deaf])
      let groups = try reasons("ssl_ecdh_curve secp384r1:prime256v1;")
      #expect(groups == ["CN=late": "no group of the key exchange in common", "CN=deaf": deaf])
      #expect(
        try reasons("ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;")
          == ["CN=suites": "no cipher suite in common", "CN=deaf": deaf])
      let keys = try reasons("ssl_conf_command ClientSignatureAlgorithms rsa_pss_rsae_sha256:rsa_pkcs1_sha256;")
      #expect(keys.count == 6 && keys["CN=fine"] == "\(deaf) for the client's key (ECDSA P-256)", "\(keys)")
      let lines = try forecast(record, scene, Self.text("")).lines
      #expect(lines.contains { $0.hasPrefix("1 of those who get in: not known whether the server has a group") })
    }
  }

  @Test func `clients with an SVID are not judged without the bundles of the agent`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      add([try certificate("web", next.root) { $0.alternativeNames = [.uri("spiffe://a.test/web")] }], &record)
      add([try certificate("old", next.root)], &record)
      let text = Self.text("ssl_client_allow uri=spiffe://a.test/web;", ca: "spiffe:")
      let found = try forecast(record, scene, text)
      #expect(found.refusals.map(\.name) == ["CN=old"])
      #expect(found.lines.contains { $0.hasPrefix("1 more is not judged: the SPIFFE agent gives the CAs") })
    }
  }

  @Test func `clients of a public CA are told of, where their next certificate will be refused`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      add([try certificate("public", next.root, usages: [.serverAuth, .clientAuth])], &record)
      add([try certificate("plain", next.root, usages: [])], &record)
      add([try certificate("own", old.root)], &record)
      func lines(_ text: String, _ anchors: TestAuthority) throws -> [String] {
        let shared = SharedState(features: Features.all), trace = ExplainTrace()
        let (generation, _) = try Explanation.load(scene.write("new.conf", text: text), sharing: shared, trace)
        return try ClientForecast(
          record, by: generation, sharing: shared, trace, at: nil, now: now,
          publicAnchors: TrustAnchors(.certificates([anchors.root.certificate]))
        ).lines.filter { $0.contains("public CA") }
      }
      let text = Self.text("", ca: "both.pem")
      let found = try lines(text, next)
      #expect(found.count == 1 && found[0].hasPrefix("1 of those who get in has a certificate of a public CA, CN=Next"))
      #expect(found.first?.hasSuffix("so its next certificate will be refused") == true)
      #expect(try lines(text, TestAuthority("Else")) == [])
      #expect(try lines(Self.text("ssl_client_purpose any; ssl_client_allow cn=public;", ca: "both.pem"), next) == [])
    }
  }

  @Test func `who was refused and will get in is told apart, and a location's own rules are counted`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      add([try certificate("stranger", next.root)], &record, .refused)
      add([try certificate("alice", next.root)], &record)
      let text = Self.text("location /admin/ { ssl_client_allow cn=boss; return 200; }")
      let found = try forecast(record, scene, text)
      #expect(!found.hasRefused && found.newlyAdmitted == ["CN=stranger"])
      #expect(
        found.lines.contains { $0.hasPrefix("1 of those who get in is denied by the rules of location /admin/") })
      #expect(found.json.hasPrefix("{\"clients\":2,"))
    }
  }

  @Test func `who comes behind a front is judged by what judges certificates in its field`() throws {
    try withScene { scene in
      try prepare(scene)
      var record = RecordedClients()
      for (name, authority) in [("early", old), ("late", next)] {
        let chain = [try certificate(name, authority.root)]
        add(chain, &record, listener: "127.0.0.1:8080", front: "10.0.0.0/8", version: "")
      }
      let chain = [try certificate("ruled", next.root)]
      add(chain, &record, listener: "127.0.0.1:8080", name: "b.test", front: "10.0.0.0/8", version: "")
      func text(_ fronts: String) -> String {
        """
        events {} http { ssl_client_certificate next.pem; \(fronts)
          server { listen 127.0.0.1:8080; server_name a.test; ssl_verify_client on; return 200; }
          server { listen 127.0.0.1:8080; server_name b.test; ssl_verify_client on; ssl_client_deny cn=ruled; return 200; } }
        """
      }
      let found = try forecast(
        record, scene, text("real_client_cert_from 10.0.0.0/8; real_client_cert_header Client-Cert rfc9440;"))
      #expect(found.refusals.map(\.name).sorted() == ["CN=early", "CN=ruled"], "\(found.lines)")
      #expect(found.refusals.contains { $0.name == "CN=ruled" && $0.reason.hasPrefix("denied by a rule") })
      #expect(found.lines.contains { $0.contains("CN=early, last visit ") && $0.hasSuffix("), behind 10.0.0.0/8") })
      // Their offers are the front's, so nothing of them is missing.
      #expect(!found.lines.contains { $0.contains("not known") }, "\(found.lines)")
      let clear = try forecast(
        record, scene, "events {} http { server { listen 127.0.0.1:8080; server_name a.test; return 200; } }")
      #expect(clear.refusals.count == 3 && clear.refusals.allSatisfy { $0.reason.contains("takes no front's word") })
    }
  }

  @Test func `a configuration that can't be loaded is no forecast`() throws {
    try withScene { scene in
      _ = #expect(throws: Explanation.Refusal.self) { try forecast(RecordedClients(), scene, Self.text("")) }
    }
  }

  @Test func `the list names what is old: SHA-1, weak keys, no clientAuth, TLS 1.2; and what ends`() throws {
    var record = RecordedClients()
    add([try certificate("fine", next.root)], &record)
    add([try certificate("sha", old.root) { $0.signatureDigest = .sha1 }], &record, version: "TLSv1.2")
    add([try certificate("server", old.root, usages: [.serverAuth])], &record, .refused)
    add([try certificate("ending", old.root) { $0.notAfter = now + 5 * Self.day }], &record)
    let all = ClientListing(record, by: .issuer, ending: nil, now: now).lines
    #expect(all[0].hasPrefix("4 clients between ") && all[0].hasSuffix(", of which 1 was refused at the last visit"))
    #expect(all[1].hasPrefix("  3  CN=Old Root  (last visit ") && all[1].hasSuffix(", 1 refused)"), "\(all)")
    func names(_ words: String) -> [String] {
      guard let place = all.firstIndex(where: { $0.hasSuffix(" with \(words):") }) else { return [] }
      return all[(place + 1)...].prefix { $0.hasPrefix("  ") }.map {
        String($0.drop { $0 == " " }.prefix { $0 != "," })
      }
    }
    #expect(names("a signature by SHA-1") == ["CN=sha"] && names("speaks TLSv1.2") == ["CN=sha"], "\(all)")
    #expect(names("no clientAuth in its extended key usage") == ["CN=server"])
    let ending = ClientListing(record, by: .end, ending: 30 * Self.day, now: now).lines
    #expect(ending[0].hasPrefix("1 client ") && ending.contains { $0.contains("CN=ending") }, "\(ending)")
    #expect(ClientListing(record, by: .version, ending: nil, now: now).lines.contains { $0.hasPrefix("  3  TLSv1.3") })
    #expect(ClientListing(record, by: .key, ending: nil, now: now).json.contains("\"group\":\"ECDSA P-256\""))
  }

  @Test func `a record that another machine's OpenSSL has written is read and listed`() throws {
    let input = try #require(FuzzInput.all(of: "FuzzClientRecord").first { $0.name == "Corpus/elsewhere" })
    let listing = ClientListing(try RecordedClients(reading: input.bytes), by: .key, ending: nil, now: now)
    for words in [
      "a weak key (RSA, 1024 bits)", "a signature by SHA-1", "no authority key identifier", "speaks TLSv1.2",
    ] {
      #expect(listing.lines.contains { $0.contains(words) }, "\(words) in \(listing.lines)")
    }
  }

  @Test func `dates are days or moments, and nothing else`() {
    #expect(Day.moment("2027-03-15") == 1_805_068_800 && Day.moment("2027-03-15T00:00:01Z") == 1_805_068_801)
    #expect(Day.moment("2028-02-29") != nil && Day.moment("1970-01-01") == 0)
    for text in [
      "2027-02-29", "2027-13-01", "2027-3-15", "", "tomorrow", "2027-03-15 00:00:00 ", "2027-03-15T25:00:00Z",
    ] {
      #expect(Day.moment(text) == nil, "\(text)")
    }
  }

  @Test func `files and folders of several machines are one record, and a damaged one is named`() throws {
    try withScene { scene in
      var one = RecordedClients(), other = RecordedClients()
      add([try certificate("one", old.root)], &one)
      add([try certificate("other", old.root)], &other)
      try scene.makeFolder("records")
      try scene.write("records/a.clients", one.text)
      try scene.write("records/b.clients", other.text)
      try scene.write("records/notes.txt", text: "nothing")
      #expect(try RecordedClients(files: [scene.path("records")]).visits.count == 2)
      #expect(try RecordedClients(files: [scene.path("records/a.clients")]).visits.count == 1)
      do throws(RecordedFilesError) {
        _ = try RecordedClients(files: [scene.path("records/notes.txt")])
        Issue.record("notes were taken for a record")
      } catch {
        #expect("\(error)".contains("notes.txt\" can't be read: it is no record of clients"))
      }
      #expect(throws: RecordedFilesError.self) { try RecordedClients(files: [scene.path("absent")]) }
      try scene.makeFolder("empty")
      #expect(throws: RecordedFilesError.self) { try RecordedClients(files: [scene.path("empty")]) }
    }
  }
}
