import ConfigurationSupport
import DNS
@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Upstream

@Suite struct `server … resolve` {
  private func load(_ server: String, group: String = "zone g 64k;", http: String = "resolver 127.0.0.1;") -> LoadedText
  {
    LoadedText(
      "http { \(http) upstream g { \(group) \(server) } server { listen 80; location / { proxy_pass http://g; } } }")
  }

  @Test func `follows a name, or the SRV records of a service`() throws {
    func followed(_ server: String) throws -> FollowedName? {
      try #require(load(server).settings?.http.groups.first).servers[0].followed
    }
    let plain = try #require(try followed("server A.test:81 resolve;"))
    #expect(plain.name.text == "a.test" && plain.port == 81 && plain.service == nil)
    #expect(try followed("server a.test service=http resolve;")?.service?.text == "_http._tcp.a.test")
    #expect(try followed("server a.test service=_x._udp resolve;")?.service?.text == "_x._udp.a.test")
    #expect(try followed("server a.test resolve service=server1.backend;")?.service?.text == "server1.backend.a.test")
    #expect(try followed("server 127.0.0.1:81 resolve;") == nil)
    #expect(try followed("server a.test;") == nil)
  }

  @Test func `is asked for by the resolver of the group, or of http`() throws {
    let own = load(
      "server a.test resolve;", group: "zone g 64k; resolver 127.0.0.2 valid=3s; resolver_timeout 4s;")
    let resolution = try #require(own.settings?.http.groups.first?.nameResolution)
    #expect(resolution.resolver.servers.map(\.address.description) == ["127.0.0.2:53"] && resolution.timeout == 4000)
    #expect(own.settings?.http.resolvers.contains(resolution.resolver) == true)
    let outer = try #require(load("server a.test resolve;").settings?.http.groups.first?.nameResolution)
    #expect(outer.resolver.servers.map(\.address.description) == ["127.0.0.1:53"])
  }

  @Test func `has nginx's demands`() {
    #expect(
      load("server a.test resolve;", group: "").errors.contains {
        $0.contains("resolving names at run time requires upstream \"g\" to be in shared memory")
      })
    #expect(
      load("server a.test resolve;", http: "").errors.contains {
        $0.contains("no resolver defined to resolve names at run time in upstream \"g\"")
      })
    for (server, message) in [
      ("server a.test service=http;", "requires \"resolve\" parameter"),
      ("server a.test:80 service=http resolve;", "may not have port"),
      ("server 127.0.0.1 service=http resolve;", "with an address"),
      ("server a.test service= resolve;", "invalid service"), ("server a.test resolve=on;", "invalid parameter"),
    ] {
      #expect(load(server).errors.contains { $0.contains(message) }, "\(server) \(load(server).errors)")
    }
    let checked = LoadedText(
      "http { resolver 127.0.0.1; upstream g { zone g 64k; server a.test resolve; }"
        + " server { listen 80; location / { proxy_pass http://g; health_check; } } }")
    #expect(checked.errors.contains { $0.contains("whose servers DNS says") })
  }
}
