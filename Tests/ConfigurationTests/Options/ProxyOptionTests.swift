import Traffic
import Forward
import Features
import Negotiation
import Crypto
import Identity
import Observability
import TLS
import Testing
import Transport
import Upstream

@testable import Configuration
@testable import Language

@Suite struct `The options of sallyport proxy` {
  private typealias Given = [ProxyOption: [String]]
  private static let base: [ProxyOption: [String]] = [
    .listen: ["127.0.0.1:8443"], .cert: ["s.pem"], .clientCA: ["ca.pem"], .to: ["https://10.0.0.5:8443"],
  ]

  private func options(
    _ given: [ProxyOption: [String]], _ environment: [String: String] = [:]
  ) throws(ProxyOptionFaults) -> ProxyOptions {
    try ProxyOptions(given: given, environment: environment.map { ($0.key, $0.value) })
  }

  private func text(
    _ changes: [ProxyOption: [String]] = [:], without: [ProxyOption] = [], _ environment: [String: String] = [:]
  ) throws(ProxyOptionFaults) -> ProxyText {
    let given = Self.base.filter { !without.contains($0.key) }.merging(changes) { $1 }
    return try ProxyText(try options(given, environment), hasIPv6: true)
  }

  private func faults(
    _ changes: [ProxyOption: [String]] = [:], without: [ProxyOption] = [], _ environment: [String: String] = [:]
  ) -> [String] {
    do throws(ProxyOptionFaults) {
      _ = try text(changes, without: without, environment)
      return []
    } catch { return error.all.map(\.description) }
  }

  private func settings(_ made: ProxyText) throws -> Settings {
    let (settings, _, diagnostics) = Configuration.read(.text(made.text, name: ProxyText.name))
    return try #require(settings, "\(diagnostics)\n\(made.text)")
  }

  // MARK: Variables

  @Test func `an option wins over its variable, and a variable of several values has one on each line`() throws {
    let found = try options(
      [.listen: ["a"]],
      ["SALLYPORT_LISTEN": "b", "SALLYPORT_PIN": "x y\nz\n", "SALLYPORT_CLIENT_CA": "c a", "OTHER": "1"])
    #expect(found[.listen].map(\.text) == ["a"] && found[.listen].first?.origin == "--listen")
    #expect(found[.pin].map(\.text) == ["x y", "z"] && found[.pin].first?.origin == "SALLYPORT_PIN")
    #expect(found.one(.clientCA)?.text == "c a")
  }

  @Test func `each option has a variable of its own`() {
    #expect(Set(ProxyOption.allCases.map(\.variable)).count == ProxyOption.allCases.count)
    #expect(ProxyOption.clientCA.variable == "SALLYPORT_CLIENT_CA")
    for option in ProxyOption.allCases { #expect(!KubernetesVariable.isOne(option.variable, "x")) }
  }

  @Test func `an unknown or empty variable is a fault, and those of Kubernetes are not`() throws {
    #expect(
      faults(["SALLYPORT_PIM": "x"]).contains { $0.contains("SALLYPORT_PIM") && $0.contains("mean SALLYPORT_PIN?") })
    for empty in ["", "\n"] {
      #expect(
        faults(["SALLYPORT_PIN": empty]) == ["error: SALLYPORT_PIN is empty\n    hint: give a value, or leave it out"])
    }
    #expect(faults(["SALLYPORT_CERT": ""], without: [.cert]).contains { $0.contains("SALLYPORT_CERT is empty") })
    for name in [
      "SALLYPORT_SERVICE_HOST", "SALLYPORT_SERVICE_PORT", "SALLYPORT_SERVICE_PORT_HTTPS", "SALLYPORT_PORT_8443_TCP",
      "SALLYPORT_PORT_8443_TCP_PROTO", "SALLYPORT_PORT_8443_TCP_PORT", "SALLYPORT_PORT_8443_TCP_ADDR",
      "SALLYPORT_EDGE_SERVICE_HOST", "SALLYPORT_EDGE_PORT_1_UDP_ADDR",
    ] { #expect(faults([name: "10.0.0.1"]).isEmpty, "\(name)") }
    #expect(faults(["SALLYPORT_PORT": "tcp://10.0.0.1:8443"]).isEmpty)
    for name in ["SALLYPORT_PORT", "SALLYPORT_PORT_TCP", "SALLYPORT_PORT_99999_TCP", "SALLYPORT_SERVICE", "SALLYPORT_"]
    {
      #expect(!faults([name: "8443"]).isEmpty, "\(name)")
    }
  }

  private func faults(_ environment: [String: String], without: [ProxyOption] = []) -> [String] {
    faults([:], without: without, environment)
  }

  @Test func `an option that makes no sense twice is refused twice`() {
    for option in ProxyOption.allCases where !option.isRepeatable {
      #expect(faults([option: ["a", "b"]]).contains { $0.contains("\(option.spelling) is given 2 times") })
    }
  }

  // MARK: What they stand for

  @Test func `clients are verified unless that is written out`() throws {
    #expect(try settings(text()).http.servers[0].tls?.verification == .on)
    #expect(try settings(text([.verify: ["optional"]])).http.servers[0].tls?.verification == .optional)
    #expect(try settings(text([.verify: ["off"]], without: [.clientCA])).http.servers[0].tls?.verification == .off)
    #expect(faults(without: [.clientCA]).contains { $0.contains("--client-ca is missing") })
    #expect(faults([.verify: ["optional"]], without: [.clientCA]).contains { $0.contains("--client-ca is missing") })
    for option in [ProxyOption.clientCA, .clientPin, .crl, .allow, .deny] {
      let found = faults([.verify: ["off"], option: ["dns=x"]], without: option == .clientCA ? [] : [.clientCA])
      #expect(found.contains { $0.contains("\(option.spelling) judges clients") }, "\(option): \(found)")
    }
    for word in ["On", "none", "optional_no_ca", "on off"] { #expect(!faults([.verify: [word]]).isEmpty) }
  }

  @Test func `pins of clients stand beside CAs, or in their place`() throws {
    let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    let alone = try #require(
      try settings(text([.clientPin: [pin, "alice.pem"]], without: [.clientCA])).http.servers[0].tls)
    #expect(alone.verification == .on && alone.clientCertificate == nil && alone.clientPins != nil)
    let beside = try #require(try settings(text([.clientPin: [pin], .crl: ["crl.pem"]])).http.servers[0].tls)
    #expect(beside.clientCertificate != nil && beside.clientPins != nil)
    #expect(
      faults([.clientPin: [pin], .crl: ["crl.pem"]], without: [.clientCA]).contains {
        $0.contains("--crl needs --client-ca")
      })
    #expect(faults([.clientPin: ["$x"]]).contains { $0.contains("--client-pin \"$x\"") })
  }

  /// By what an upstream with TLS is verified.
  private static func trust(_ pass: UpstreamPass) throws -> String {
    switch try #require(pass.trust.tls).trust {
    case .anybody: "anybody"
    case .verified(let anchors, let name): "\(anchors.file?.description ?? "system") name \(name)"
    case .pinned(_, let anchors, let name, _): "pin and \(anchors.file?.description ?? "system") name \(name)"
    case .pinnedLeaf: "pin"
    case .workload: "SPIFFE"
    }
  }

  @Test func `an https upstream is verified by what is given, else by the system's CAs`() throws {
    func trust(_ changes: [ProxyOption: [String]]) throws -> String {
      let http = try settings(text(changes)).http
      guard let pass = http.servers.first?.root.locations.first?[UpstreamPass.self] else { return "no proxy" }
      return try Self.trust(pass)
    }
    let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    #expect(try trust([:]) == "system name true")
    #expect(try trust([.upstreamCA: ["up.pem"]]) == "up.pem name true")
    #expect(try trust([.upstreamCA: ["up.pem"], .pin: [pin]]) == "pin and up.pem name true")
    #expect(try trust([.pin: [pin, pin]]) == "pin")
    let http = [ProxyOption.to: ["http://10.0.0.5"]]
    for option in [ProxyOption.pin, .upstreamCA, .upstreamName, .upstreamCert] {
      #expect(
        faults(http.merging([option: ["x"]]) { $1 }).contains {
          $0.contains("\(option.spelling) needs an upstream with TLS")
        })
    }
    #expect(faults([.to: ["https://a", "http://b"]]).contains { $0.contains("--to \"http://b\": all servers") })
    #expect(faults([.to: ["https://a", "https://b"]]).contains { $0.contains("--upstream-name is missing") })
    #expect(faults([.to: ["https://a", "https://b"], .upstreamName: ["c"]]).isEmpty)
  }

  @Test(arguments: [
    (":8443", ["0.0.0.0:8443", "[::]:8443"]), ("8443", ["0.0.0.0:8443", "[::]:8443"]), ("[::1]:1", ["[::1]:1"]),
    ("localhost:2", ["127.0.0.1:2"]), ("unix:/run/a b;c", ["unix:/run/a b;c"]), ("systemd:https", ["systemd:https"]),
  ]) func `an address to listen on`(written: String, addresses: [String]) throws {
    #expect(try settings(text([.listen: [written]])).http.listeners.map(\.address.description) == addresses)
  }

  @Test func `a port for probes is on the loopback`() throws {
    let listeners = try settings(text([.healthListen: [":9000"]])).http.listeners
    #expect(listeners.map(\.address.description) == ["127.0.0.1:8443", "127.0.0.1:9000"])
    #expect(listeners.map(\.isTLS) == [true, false])
  }

  @Test func `a rule is split at its conditions, not inside a value`() {
    #expect(ProxyRule.words("dns=*.a ou=x") == ["dns=*.a", "ou=x"])
    #expect(ProxyRule.words("o=My Company  cn=x") == ["o=My Company", "cn=x"])
    // A mistyped key must not become part of the value before it.
    #expect(ProxyRule.words("cn=mallory ouu=x") == ["cn=mallory", "ouu=x"])
    #expect(ProxyRule.words("nonsense") == ["nonsense"] && ProxyRule.words("").isEmpty)
  }

  // MARK: Connections

  private func tcp(_ changes: [ProxyOption: [String]] = [:], to: [String] = ["db:5432"]) throws(ProxyOptionFaults)
    -> ProxyText
  {
    try text([.tcp: ["on"], .to: to].merging(changes) { $1 })
  }

  @Test func `connections pass in clear unless a URL or an option says TLS`() throws {
    func pass(_ changes: [ProxyOption: [String]], to: [String] = ["10.0.0.5:5432"]) throws -> UpstreamPass {
      let http = try settings(tcp(changes, to: to)).http
      #expect(http.servers.count == 1 && http.servers[0].stream != nil && http.servers[0].tls?.verification == .on)
      return try #require(http.servers[0].root[UpstreamPass.self])
    }
    let plain = try pass([:])
    #expect(
      plain.trust.tls == nil && plain.scheme == .http && plain.tcp?.timeout == 43_200_000 && plain.tcp?.opening == nil)
    func trust(_ changes: [ProxyOption: [String]], to: [String] = ["10.0.0.5:5432"]) throws -> String {
      try Self.trust(try pass(changes, to: to))
    }
    let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    #expect(try trust([:], to: ["tls://10.0.0.5:5432"]) == "system name true")
    #expect(try trust([:], to: ["TLS://unix:/run/db"]) == "system name true")
    #expect(try trust([.upstreamCA: ["up.pem"]]) == "up.pem name true")
    #expect(try trust([.pin: [pin]]) == "pin")
    #expect(try trust([.upstreamCA: ["up.pem"], .pin: [pin]]) == "pin and up.pem name true")
    #expect(try trust([.upstreamCert: ["c.pem"]]) == "system name true")
    #expect(try trust([.upstreamName: ["db.test"]]) == "system name true")
    #expect(try trust([.upstreamStartTLS: ["postgres"]]) == "system name true")
    let asked = try pass([.upstreamStartTLS: ["postgres"], .starttls: ["postgres"]])
    #expect(asked.tcp?.opening == UpstreamOpening(kind: .postgres, goal: .tls))
    #expect(try settings(tcp([.starttls: ["smtp"]])).http.servers[0].stream?.negotiation == .smtp)
    // Rules and lists are those of HTTP, and so is the port for probes.
    let more = try settings(tcp([.allow: ["cn=alice"], .healthListen: [":9000"]])).http
    #expect(more.servers.count == 2 && more.listeners.map(\.isTLS).sorted { $0 && !$1 } == [true, false])
  }

  @Test func `options that make no sense together are refused`() {
    func faults(_ changes: [ProxyOption: [String]], to: [String]? = nil, tcp: Bool = true) -> [String] {
      var given = changes
      if tcp { given[.tcp] = ["on"] }
      given[.to] = to ?? ["db:5432"]
      return self.faults(given)
    }
    #expect(faults([:]).isEmpty)
    for url in ["https://db:5432", "http://db"] {
      let found = faults([:], to: [url])
      #expect(
        found.count == 1 && found[0].contains("--to \"\(url)\": with --tcp it must be HOST:PORT or tls://HOST:PORT"))
      #expect(found[0].contains("hint: without --tcp"))
    }
    for wrong in [
      "db", "tls://db", "db:0", "db:5432/", "tls://db:1/path", "a@db:1", ":1", "tls://", "ftp://db:1", "$db:1",
    ] {
      #expect(faults([:], to: [wrong]).contains { $0.contains("--to \"\(wrong)\": ") }, "\(wrong)")
    }
    for target in ["db:5432", "tls://db:5432"] {
      #expect(
        faults([:], to: [target], tcp: false).contains {
          $0.contains("must begin with https://") && $0.contains("--tcp")
        })
    }
    for option in [ProxyOption.starttls, .upstreamStartTLS] {
      #expect(
        faults([option: ["smtp"]], to: ["http://a"], tcp: false).contains {
          $0.contains("\(option.spelling) needs --tcp")
        })
      #expect(
        faults([option: ["ftp"]]).contains {
          $0.contains("\(option.spelling) \"ftp\": it must be one of postgres, smtp, imap, pop3, ldap")
        })
    }
    #expect(
      faults([.starttls: ["smtp"], .upstreamStartTLS: ["imap"]]).contains {
        $0.contains("--upstream-starttls is imap, and --starttls is smtp")
      })
    #expect(faults([:], to: ["db:1", "tls://db:2"]).contains { $0.contains("same scheme") })
    #expect(faults([:], to: ["tls://a:1", "tls://b:1"]).contains { $0.contains("--upstream-name is missing") })
    #expect(faults([.upstreamCA: ["x"]], to: ["a:1", "b:1"]).contains { $0.contains("--upstream-name is missing") })
    #expect(faults([.upstreamKey: ["k"]]).contains { $0.contains("--upstream-cert, which is missing") })
    for word in ["yes", "On", ""] { #expect(!self.faults([.tcp: [word], .to: ["db:1"]]).isEmpty, "\(word)") }
  }

  // MARK: Faults

  private static let hostile = [
    "x", "", " ", "a b", "a\"b", "a;b", "}\n}\nhttp {", "$host", "${x}", "\\", "'", "#", "~(", "on;", "sha256//AA",
    "https://", "https://a/b", "https://a:99999", "https://[::1", "https://$host", "https://a?b", ":", ":0", ":99999",
    "[::1", "unix:", "unix:rel", "systemd:", "store:x", "engine:y", "credential:", "credential:a/b", "999999", "-1",
    "chain", "dns=~(", "dsn=x", "=x", "data:x", "\u{1}", String(repeating: "x", count: 5000), "~", "*", "ssl_crl",
    "default",
  ]

  /// Whoever gave options and no file can't do anything with a directive's name or a line of a text.
  @Test(
    arguments: [[:], [ProxyOption.tcp: ["on"], .to: ["tls://db:5432"], .upstreamStartTLS: ["postgres"]]],
    [[], [ProxyOption.cert, .clientCA]])
  func `no option's error speaks of a directive or of a line`(
    base: [ProxyOption: [String]], without: [ProxyOption]
  ) throws {
    var count = 0
    let block = base.isEmpty ? "http" : "stream"
    for option in ProxyOption.allCases where option != .demoCA {
      for value in Self.hostile {
        do throws(ProxyOptionFaults) {
          let made = try text(base.merging([option: [value]]) { $1 }, without: without)
          let wording = OptionWording(made)
          for diagnostic in Configuration.read(.text(made.text, name: ProxyText.name)).diagnostics {
            let spoken = wording.reworded(diagnostic)
            count += 1
            #expect(spoken.location == nil, "\(spoken)")
            #expect(
              !OptionWording.namesDirective("\(spoken)".replacing(value.isEmpty ? "\0" : value, with: "")), "\(spoken)")
            #expect(!"\(spoken)".contains(ProxyText.name), "\(spoken)")
            if diagnostic.severity == .error {
              #expect(spoken.message.contains(option.spelling), "\(option) \(value): \(spoken)")
            }
          }
          // Whatever the value is, the text is what it is without it.
          var parser = Parser(mainFile: "x", files: .none)
          let tree = parser.parse(bytes: Array(made.text.utf8), path: "x")
          #expect(
            parser.diagnostics.isEmpty && tree.contains { $0.name == block } && tree.count <= 5, "\(option) \(value)")
        } catch {
          for fault in error.all {
            count += 1
            #expect(fault.text.contains("--"), "\(fault)")
            #expect(
              !OptionWording.namesDirective(fault.description.replacing(value.isEmpty ? "\0" : value, with: "")),
              "\(fault)")
          }
        }
      }
    }
    #expect(count > 100)
  }

  @Test func `no value can hold a variable, which a client could choose`() {
    let upstream = [ProxyOption.upstreamCert: ["c"]]
    for option in [
      ProxyOption.cert, .key, .passwordFile, .clientCA, .crl, .pin, .upstreamCA, .upstreamCert, .upstreamKey, .user,
      .upstreamName,
    ] {
      for value in ["$http_x", "a/${host}"] {
        let found = faults(upstream.merging([option: [value]]) { $1 })
        #expect(found.count == 1 && found[0].contains("\(option.spelling) \"\(value)\""), "\(option): \(found)")
      }
    }
    for name in ["a b", "", "a/b", "a:1"] { #expect(!faults([.upstreamName: [name]]).isEmpty, "\(name)") }
    for name in ["a.b", "10.0.0.1", "::1"] { #expect(faults([.upstreamName: [name]]).isEmpty, "\(name)") }
  }

  @Test func `a fault of a file that cannot be loaded names the option`() throws {
    let made = try text([.upstreamCA: ["u.pem"]])
    let lines = made.text.split(separator: "\n", omittingEmptySubsequences: false)
    let line = try #require(lines.firstIndex { $0.contains("u.pem") }) + 1
    let told = OptionWording(made).reworded(
      Diagnostic(
        .error, at: SourceLocation(file: ProxyText.name, line: line, column: 3), "cannot load \"u.pem\": no such file",
        hint: "see \"proxy_ssl_trusted_certificate\", or ssl_session_cache"))
    #expect("\(told)" == "error: --upstream-ca \"u.pem\": cannot load \"u.pem\": no such file")
    let plain = OptionWording.inOptions(
      "\"ssl_certificate_key\" and proxy_ssl_certificate in \"ssl_crl\" directive; xssl_crl")
    #expect(plain == "\"--key\" and --upstream-cert; xssl_crl")
  }
}
