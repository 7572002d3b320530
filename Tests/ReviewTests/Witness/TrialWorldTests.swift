import Crypto
import Language
import ConfigurationSupport
import Observability
import TLS
import TestSupport
import Testing
import Traffic
import Transport

@testable import Review

/// What clients that exist in memory only get of a configuration whose CAs nobody here has the keys of.
@Suite struct `A trial world` {
  private func world(_ scene: Scene, _ text: String) throws -> TrialWorld {
    let source = ConfigurationSource(try scene.write("w.conf", text: "events {} \(text)"))
    do { return try TrialWorld(source) } catch {
      Issue.record("\(error.text) \(error.diagnostics)")
      throw error
    }
  }

  private func attempt(
    _ persona: Persona, _ target: String = "/", listener: Int = 0, _ name: String = "a.test"
  ) -> Attempt {
    var attempt = Attempt(persona, listener: listener, serverName: name, host: name)
    attempt.target = target
    return attempt
  }

  private static let alice = Persona("alice", subject: [NamePart("CN", "alice"), NamePart("O", "Example")])

  private static func persona(_ change: (inout Persona) -> Void) -> Persona { alice.but("changed", change) }

  @Test func `lets in whom the configuration lets in, and nobody else`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on;
          ssl_client_allow cn=alice;
          location / { proxy_pass http://127.0.0.1:9; proxy_set_header X-DN $ssl_client_s_dn; } } }
        """)
      let alice = world.run(attempt(Self.alice))
      #expect(alice.end == .upstream("127.0.0.1:9") && alice.isAdmitted, "\(alice.lines)")
      #expect(alice.upstreams[0].told.contains { $0 == ("X-DN", "CN=alice,O=Example") }, "\(alice.upstreams)")
      #expect(alice.place?.line == 2)
      for persona in [
        Persona.nobody, .stranger, Self.persona { $0.issuer = .stranger },
        Self.persona { $0.subject = [NamePart("CN", "bob")] },
        Self.persona { $0.fault = .expired }, Self.persona { $0.fault = .notYetValid },
        Self.persona { $0.fault = .wrongPurpose }, Self.persona { $0.fault = .weakKey },
      ] {
        let outcome = world.run(attempt(persona))
        #expect(!outcome.isAdmitted && !outcome.isUnknown && outcome.upstreams.isEmpty, "\(persona) \(outcome.lines)")
      }
      // None of them changed what becomes of another.
      #expect(world.run(attempt(Self.alice)).isAdmitted)
    }
  }

  @Test func `refuses whom a list revokes, and a list of another CA revokes nobody`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      try scene.write("ca.crl", text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on; ssl_crl ca.crl;
          location / { return 200 x; } }
          server { listen 127.0.0.1:8444 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on;
          location / { return 200 x; } } }
        """)
      let revoked = Self.persona { $0.fault = .revoked }
      #expect(world.run(attempt(Self.alice)).isAdmitted && !world.run(attempt(revoked)).isAdmitted)
      #expect(world.run(attempt(revoked, listener: 1)).isAdmitted && world.revokes(0) && !world.revokes(1))
    }
  }

  @Test func `keeps the chain of the CAs as it is: a CA without its root verifies nobody`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      let root = authority.root.certificate.pem, intermediate = authority.intermediate.certificate.pem
      try scene.write("half.pem", text: intermediate)
      try scene.write("whole.pem", text: root + intermediate)
      func server(_ port: Int, _ file: String) -> String {
        """
        server { listen 127.0.0.1:\(port) ssl; server_name a.test; ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate \(file); ssl_verify_client on; location / { return 200 x; } }
        """
      }
      let world = try world(scene, "http { \(server(8443, "half.pem")) \(server(8444, "whole.pem")) }")
      let subject = intermediate.isEmpty ? "" : authority.intermediate.certificate.subject.rfc2253
      let index = try #require(world.authorities(named: subject).first)
      let persona = Self.persona { $0.issuer = .authority(index) }
      #expect(!world.run(attempt(persona)).isAdmitted && world.run(attempt(persona, listener: 1)).isAdmitted)
      // Of a file with both, the one that issues clients is meant.
      #expect(world.authorities(named: "whole.pem").first.map { world.authorities[$0].subject } == subject)
    }
  }

  @Test(arguments: ["sha256//", "cert:", "file"])
  func `knows what is pinned, and refuses what isn't`(kind: String) throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      let client = try authority.client()
      let file = try scene.identity("pinned", client).certificate
      let pin =
        switch kind {
        case "sha256//": Pin.spelling(publicKeyDigest: client.certificate.spkiSHA256)
        case "cert:": Pin.spelling(certificateDigest: client.certificate.sha256)
        default: file
        }
      let mode = kind == "sha256//" ? "" : "ssl_client_pinning certificate;"
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on;
          ssl_client_pin \(pin); \(mode) location / { return 200 x; } } }
        """)
      #expect(world.pins.count == 1)
      let pinned = world.run(attempt(Self.persona { $0.issuer = .pin(0) }))
      #expect(pinned.isAdmitted, "\(pinned.lines)")
      #expect(!world.run(attempt(Self.alice)).isAdmitted)
    }
  }

  @Test func `judges workloads by the trust domains of which a SPIFFE agent could tell`() throws {
    try withScene { scene in
      try scene.serverFiles()
      func server(_ port: Int, _ lines: String) -> String {
        "server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(lines) location / { proxy_pass http://127.0.0.1:9; } }"
      }
      let world = try world(
        scene,
        """
        http { ssl_certificate spiffe:;
          \(server(8443, "ssl_client_certificate spiffe://example.org; ssl_verify_client on; ssl_client_allow uri=spiffe://*.org/job/**;"))
          \(server(8444, "ssl_client_certificate spiffe:; ssl_verify_client on; ssl_client_deny uri=spiffe://fed.test/**;"))
          \(server(8445, "ssl_verify_client off;"))
        }
        """)
      func workload(_ id: String, by domain: String? = nil) throws -> Persona {
        let issuer = try domain.map { try #require(world.authorities(named: "spiffe://\($0)").first) }
        return Self.persona {
          $0.alternativeNames = [.uri(id)]
          if let issuer { $0.issuer = .authority(issuer) }
        }
      }
      func ports(_ persona: Persona) -> [Int] {
        (0...2).filter { listener in
          let outcome = world.run(attempt(persona, listener: listener))
          #expect(!outcome.isUnknown, "\(persona) \(outcome.words)")
          return outcome.isAdmitted
        }
      }
      let job = "spiffe://example.org/job/1"
      #expect(ports(try workload(job)) == [0, 1, 2])
      // Another workload, another trust domain that is named, one that is not, and one of which nobody knows.
      #expect(ports(try workload("spiffe://example.org/web")) == [1, 2])
      #expect(ports(try workload("spiffe://fed.test/job")) == [2])
      #expect(ports(try workload("spiffe://other.invalid/job/1")) == [1, 2])
      #expect(ports(try workload("spiffe://unheard.test/job/1")) == [2])
      // The ID alone is no proof, and neither is another CA than that of its trust domain.
      #expect(ports(try workload(job, by: "fed.test")) == [2] && ports(.nobody) == [2])
      #expect(ports(try workload(job).but("expired") { $0.fault = .expired }) == [2])
      // Who says no ID is some workload of the domain.
      #expect(ports(Self.alice) == [1, 2])
    }
  }

  @Test func `judges a certificate at hand by the files themselves`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles(), others = try TestAuthority("Others")
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on;
          location / { proxy_pass http://127.0.0.1:9; } } }
        """)
      func chain(_ client: CertifiedKey) -> Persona {
        Self.persona { $0.issuer = .file([client.certificate] + client.chain) }
      }
      #expect(world.run(attempt(chain(try authority.client()))).end == .upstream("127.0.0.1:9"))
      #expect(!world.run(attempt(chain(try others.client()))).isAdmitted)
      #expect(world.run(attempt(Self.alice)).isAdmitted)
    }
  }

  @Test func `tells who would be asked, and takes it as admitted`() throws {
    try withScene { scene in
      try scene.write("users", text: "alice:{PLAIN}x\n")
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8080; server_name a.test;
          location /password { auth_basic s; auth_basic_user_file users; proxy_pass http://127.0.0.1:9; }
          location /asked { auth_request /ask; proxy_pass http://127.0.0.1:9; }
          location = /ask { internal; proxy_pass http://127.0.0.1:8; } } }
        """)
      #expect(world.run(attempt(.nobody, "/password")).end == .status(401))
      let known = Persona.nobody.but("with a password") { $0.fields = ["Authorization: Basic YWxpY2U6eA=="] }
      let password = world.run(attempt(known, "/password"))
      #expect(password.isAdmitted && password.asks.count == 1, "\(password.lines)")
      let asked = world.run(attempt(.nobody, "/asked"))
      #expect(asked.isAdmitted && asked.asks.contains { $0.contains("/ask") }, "\(asked.lines)")
      #expect(world.run(attempt(.nobody, "/ask")).end == .status(404))
    }
  }

  @Test func `goes the ways of the process: an error page, a rewrite, a session of stream`() throws {
    try withScene { scene in
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8080; server_name a.test;
          location /no { deny all; error_page 403 /page; proxy_pass http://127.0.0.1:9; }
          location /page { proxy_pass http://127.0.0.1:7; }
          location /old { rewrite ^ /no last; } } }
        stream { upstream db { server 127.0.0.1:5; }
          server { listen 127.0.0.1:5432; deny 240.0.0.0/8; proxy_pass db; } }
        """)
      for path in ["/no", "/old"] {
        let refused = world.run(attempt(.nobody, path))
        #expect(refused.upstreams.map(\.name) == ["127.0.0.1:7"] && refused.rules.contains { !$0.admits })
        // The upstream has seen the request, and the client is told that it is refused.
        #expect(refused.status == 403 && refused.isAdmitted && !refused.isServed)
        #expect(refused.words == "it reaches 127.0.0.1:7, and the response is 403")
      }
      let stream = try #require(world.http.listeners.firstIndex { $0.kind == .stream })
      #expect(world.run(attempt(.nobody, listener: stream)).end == .session(.refusedAddress))
      var near = attempt(.nobody, listener: stream)
      near.client = .ipv4(address: 0x7F00_0001, port: 1)
      #expect(world.run(near).end == .upstream("db"))
    }
  }

  @Test(arguments: ["rfc9440", "xfcc", "pem", "der"])
  func `relays a client behind a front, whose word nobody else has`(format: String) throws {
    try withScene { scene in
      try scene.serverFiles()
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8080; server_name a.test; ssl_client_certificate ca.pem; ssl_verify_client on;
          real_client_cert_from 10.0.0.0/8; real_client_cert_header X-Cert \(format);
          location / { ssl_client_allow cn=alice; proxy_pass http://127.0.0.1:9; } } }
        """)
      var front = attempt(.nobody)
      front.client = .ipv4(address: 0x0A00_0001, port: 40_000)
      front.relayed = Self.alice
      #expect(world.run(front).end == .upstream("127.0.0.1:9"), "\(world.run(front).lines)")
      front.relayed = Self.persona { $0.issuer = .stranger }
      #expect(!world.run(front).isAdmitted)
      var stranger = front
      (stranger.client, stranger.relayed) = (Attempt.usualAddress, Self.alice)
      #expect(!world.run(stranger).isAdmitted)
    }
  }

  @Test func `takes the address of a PROXY header where its sender is believed`() throws {
    try withScene { scene in
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8080 proxy_protocol; server_name a.test;
          set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol;
          location /p { allow 192.0.2.7; deny all; proxy_pass http://127.0.0.1:9; } } }
        """)
      var proxied = attempt(.nobody, "/p")
      proxied.proxied = .ipv4(address: 0xC000_0207, port: 1)
      #expect(!world.run(proxied).isAdmitted)
      proxied.client = .ipv4(address: 0x0A00_0001, port: 40_000)
      #expect(world.run(proxied).isAdmitted, "\(world.run(proxied).lines)")
      proxied.proxied = nil
      #expect(!world.run(proxied).isAdmitted)
    }
  }

  @Test func `counts no client against the next: a limit of rates is taken as kept`() throws {
    try withScene { scene in
      let world = try world(
        scene,
        """
        http { limit_req_zone $binary_remote_addr zone=z:64k rate=1r/m;
          server { listen 127.0.0.1:8080; server_name a.test; limit_req zone=z; location / { return 200 x; } } }
        """)
      for _ in 0..<50 { #expect(world.run(attempt(.nobody)).end == .status(200)) }
    }
  }

  @Test func `refuses a version of TLS that the server block doesn't speak`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let world = try world(
        scene,
        """
        http { server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_protocols TLSv1.3;
          location / { return 200 x; } } }
        """)
      var old = attempt(.nobody)
      old.version = .tls12
      #expect(world.run(old).end == .handshake(.version))
      old.version = .tls13
      #expect(world.run(old).isAdmitted)
    }
  }

  @Test func `is refused with the reasons of a configuration that would not be served`() throws {
    try withScene { scene in
      let path = try scene.write(
        "x.conf",
        text:
          "events {} http { server { listen 127.0.0.1:1 ssl; ssl_certificate no.pem; ssl_certificate_key no.key; } }")
      #expect(throws: TrialWorld.Refusal.self) { try TrialWorld(.file(path)) }
      #expect(throws: TrialWorld.Refusal.self) { try TrialWorld(.file("\(path).not")) }
    }
  }
}

@Suite struct `The name of a persona` {
  @Test(arguments: [
    ("CN=boss,O=Example", ["CN=boss", "O=Example"]), ("CN=a\\,b", ["CN=a,b"]), ("CN=x, C=SE", ["CN=x", "C=SE"]),
    ("1.2.3=x=y", ["1.2.3=x=y"]),
  ])
  func `is read as RFC 2253 writes it`(text: String, parts: [String]) throws {
    #expect(try #require(NamePart.parse(text)).map { "\($0.type)=\($0.value)" } == parts)
  }

  @Test(arguments: ["", "boss", "CN=", "=x", "CN=a+O=b", "CN=a\\", "CN=a,,O=b"])
  func `is none where a part is missing`(text: String) { #expect(NamePart.parse(text) == nil) }
}
