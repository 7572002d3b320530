import Crypto
import Features
import Forward
import Negotiation
import TLS
import Testing
import Traffic
import Upstream

@testable import Configuration
@testable import Language

@Suite struct `The options of sallyport proxy without --cert` {
  private static let base: [ProxyOption: [String]] = [
    .listen: ["127.0.0.1:8080"], .to: ["https://api.test:8443"], .clientCert: ["c.pem"], .clientKey: ["c.key"],
  ]
  private static let tcp: [ProxyOption: [String]] = [.tcp: ["on"], .to: ["tls://db.test:5433"]]

  private func text(
    _ changes: [ProxyOption: [String]] = [:], without: [ProxyOption] = []
  ) throws(ProxyOptionFaults) -> ProxyText {
    let given = Self.base.filter { !without.contains($0.key) }.merging(changes) { $1 }
    return try ProxyText(try ProxyOptions(given: given, environment: []), hasIPv6: true)
  }

  private func faults(_ changes: [ProxyOption: [String]] = [:], without: [ProxyOption] = []) -> [String] {
    do throws(ProxyOptionFaults) {
      _ = try text(changes, without: without)
      return []
    } catch { return error.all.map(\.description) }
  }

  private func settings(_ made: ProxyText) throws -> Settings {
    let (settings, _, diagnostics) = Configuration.read(.text(made.text, name: ProxyText.name))
    #expect(diagnostics.isEmpty, "\(diagnostics)\n\(made.text)")
    return try #require(settings, "\(diagnostics)\n\(made.text)")
  }

  /// How the upstream is trusted and asked.
  private func way(_ changes: [ProxyOption: [String]] = [:], without: [ProxyOption] = []) throws -> (
    trust: String, pass: UpstreamPass
  ) {
    let http = try settings(text(changes, without: without)).http
    #expect(http.listeners.allSatisfy { !$0.isTLS })
    let server = try #require(http.servers.last)
    #expect(server.tls == nil)
    let pass = try #require(
      server.stream == nil ? server.root.locations.first?[UpstreamPass.self] : server.root[UpstreamPass.self])
    let trust =
      switch try #require(pass.trust.tls).trust {
      case .anybody: "anybody"
      case .verified(let anchors, let name): "\(anchors.file?.description ?? "system") name \(name)"
      case .pinned(_, let anchors, let name, _): "pin and \(anchors.file?.description ?? "system") name \(name)"
      case .pinnedLeaf: "pin"
      case .workload: "SPIFFE"
      }
    return (trust, pass)
  }

  private static let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

  @Test func `requests come in clear and go on over TLS, judged by what is given`() throws {
    #expect(try way().trust == "system name true")
    #expect(try way(without: [.clientCert, .clientKey]).trust == "system name true")
    #expect(try way([.ca: ["up.pem"]]).trust == "up.pem name true")
    #expect(try way([.upstreamCA: ["up.pem"]]).trust == "up.pem name true")
    #expect(try way([.pin: [Self.pin]]).trust == "pin")
    #expect(try way([.ca: ["up.pem"], .pin: [Self.pin]]).trust == "pin and up.pem name true")
    #expect(try way([.listen: ["unix:/run/api.sock"]]).trust == "system name true")
    let lines = try text().text
    for line in [
      "proxy_ssl_certificate c.pem;", "proxy_ssl_certificate_key c.key;", "proxy_set_header Host api.test:8443;",
      "proxy_redirect https://api.test:8443/ /;",
    ] { #expect(lines.contains("            \(line)\n"), "\(line)") }
    #expect(
      !lines.contains("X-Forwarded-") && !lines.contains("ssl_certificate s")
        && !lines.contains("listen 127.0.0.1:8080 ssl"))
    let own = try text([.to: ["https://[::1]"], .upstreamName: ["other.test"]]).text
    #expect(own.contains("Host other.test;") && own.contains("proxy_ssl_name other.test;"))
  }

  @Test func `connections come in clear and go on over TLS, asked for in the words of their protocol`() throws {
    for (changes, trust) in [
      ([:], "system name true"), ([.pin: [Self.pin]], "pin"), ([.ca: ["up.pem"]], "up.pem name true"),
      ([.ca: ["up.pem"], .to: ["db.test:5432"]], "up.pem name true"),
    ] as [([ProxyOption: [String]], String)] {
      let found = try way(Self.tcp.merging(changes) { $1 })
      #expect(found.trust == trust && found.pass.tcp?.opening == nil)
    }
    let asked = try way(Self.tcp.merging([.starttls: ["smtp"]]) { $1 }).pass
    #expect(asked.tcp?.opening == UpstreamOpening(kind: .smtp, goal: .tls) && asked.tcp?.passesGreeting == true)
    #expect(try way(Self.tcp.merging([.upstreamStartTLS: ["smtp"]]) { $1 }).pass.tcp?.opening == asked.tcp?.opening)
  }

  @Test func `identities of SPIFFE need no file`() throws {
    let ids = [ProxyOption.upstreamID: ["spiffe://a.test/x", "spiffe://a.test/y"], .clientCert: ["spiffe:"]]
    for base in [[:], Self.tcp] {
      let made = try text(
        base.merging(ids) { $1 }.merging([.spiffeEndpoint: ["unix:/run/agent.sock"]]) { $1 }, without: [.clientKey])
      #expect(made.text.contains("spiffe_endpoint unix:/run/agent.sock;"))
      #expect(made.text.contains("proxy_ssl_spiffe_id spiffe://a.test/x spiffe://a.test/y;"))
      #expect(try settings(made).main.workloadEndpoint == "/run/agent.sock")
      #expect(try way(base.merging(ids) { $1 }, without: [.clientKey]).trust == "SPIFFE")
    }
    for (option, value) in [(.pin, Self.pin), (.upstreamName, "a.test"), (.ca, "up.pem")] as [(ProxyOption, String)] {
      #expect(
        faults(ids.merging([option: [value]]) { $1 }, without: [.clientKey]).contains {
          $0.contains("\(option.spelling) beside --upstream-id")
        }, "\(option)")
    }
    #expect(
      faults([.ca: ["spiffe:"]]).contains { $0.contains("--upstream-id is missing: --ca \"spiffe:\" vouches for many") }
    )
    #expect(faults([.spiffeEndpoint: ["unix:/a"]]).contains { $0.contains("an agent that nothing is taken from") })
  }

  @Test func `a proxy may be on the way, with and without a user`() throws {
    for base in [[:], Self.tcp] {
      let way = try way(base.merging([.via: ["http://proxy.test:3128"], .viaUserFile: ["u"]]) { $1 })
      #expect(way.trust == "system name true")
      #expect(way.pass.origin.tunnel?.proxy == .name("proxy.test", port: 3128))
      #expect(way.pass.origin.tunnel?.user?.description == "u")
    }
    #expect(faults([.viaUserFile: ["u"]]).contains { $0.contains("--via-user-file is the file of the user of --via") })
  }

  @Test func `nothing goes on in clear`() {
    #expect(
      faults([.to: ["http://api.test"]], without: [.clientCert, .clientKey]).contains {
        $0.contains("--to \"http://api.test\": without --cert the upstream must have TLS")
          && $0.contains("--to https://api.test:80")
      })
    let found = faults([.tcp: ["on"], .to: ["db.test:5432"]], without: [.clientCert, .clientKey])
    #expect(
      found.count == 1 && found[0].contains("the upstream must have TLS")
        && found[0].contains("--to tls://db.test:5432"))
  }

  @Test(arguments: [
    ":8080", "8080", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1", "systemd:x",
  ])
  func `other machines reach it only if that is written out`(address: String) throws {
    let found = faults([.listen: [address]])
    #expect(found.count == 1 && found[0].contains("--listen \"\(address)\": without --cert everybody who reaches it"))
    #expect(found[0].contains("--listen-anywhere"))
    let open = try text([.listen: [address], .listenAnywhere: ["on"]])
    // Nobody knows the names under which other machines ask.
    #expect(try settings(open).http.servers.count == 1)
  }

  @Test(arguments: ["127.0.0.1:1", "127.9.8.7:1", "localhost:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/x"])
  func `this machine's own addresses need no word`(address: String) throws {
    #expect(try settings(text([.listen: [address]])).http.servers.count == (address == "unix:/run/x" ? 1 : 2))
    #expect(try settings(text(Self.tcp.merging([.listen: [address]]) { $1 })).http.servers.count == 1)
  }

  @Test func `requests to other names than the proxy's are refused, as those that a web page sends`() throws {
    let made = try text([.to: ["https://[2001:db8::1]:8443", "https://b.test"], .upstreamName: ["up.test"]])
    #expect(made.text.contains("server_name localhost 127.0.0.1 [::1] [2001:db8::1] up.test b.test;"))
    #expect(made.text.contains("return 421 "))
    #expect(try settings(made).http.servers.count == 2)
  }

  @Test func `options about clients' certificates are refused, and words of the other side too`() {
    for option in [ProxyOption.clientCA, .clientPin, .verify, .crl, .allow, .deny] {
      #expect(
        faults([option: [option == .verify ? "off" : "x"]]).contains {
          $0.contains("\(option.spelling) judges certificates of clients, who come in clear without --cert")
        }, "\(option)")
    }
    #expect(faults([.key: ["k"]]).contains { $0.contains("--key is the key of --cert") && $0.contains("--client-key") })
    #expect(faults(without: [.clientCert]).contains { $0.contains("--client-key is the key of --client-cert") })
    #expect(
      faults([.passwordFile: ["p"]], without: [.clientCert, .clientKey]).contains {
        $0.contains("--password-file opens the key of --client-cert")
      })
    #expect(faults([.ca: ["a"], .upstreamCA: ["b"]]).contains { $0.contains("--ca and --upstream-ca mean the same") })
    let server: [ProxyOption: [String]] = [.cert: ["s.pem"], .clientCA: ["ca.pem"]]
    for (option, same) in [
      (ProxyOption.clientCert, "--upstream-cert"), (.clientKey, "--upstream-key"), (.ca, "--upstream-ca"),
    ] {
      let found = faults(server.merging([option: ["x"]]) { $1 }, without: [.clientCert, .clientKey])
      #expect(
        found.contains { $0.contains("\(option.spelling) belongs to a proxy without --cert") && $0.contains(same) })
    }
    #expect(
      faults(server.merging([.listenAnywhere: ["on"]]) { $1 }, without: [.clientCert, .clientKey]).contains {
        $0.contains("--listen-anywhere belongs to a proxy without --cert")
      })
  }
}
