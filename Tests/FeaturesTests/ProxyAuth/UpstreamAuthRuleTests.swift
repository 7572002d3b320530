import ConfigurationSupport
import Crypto
import Features
import Forward
import Observability
import Testing
import Traffic
import Upstream
import UpstreamAuth

@Suite struct `Upstream authentication in a configuration` {
  private func load(_ location: String, pass: String = "https://up.test:8443", http: String = "") -> LoadedText {
    LoadedText(
      """
      events {} http { proxy_ssl_verify off; \(http)
      server { listen 8080; location / { proxy_pass \(pass); \(location) } } }
      """)
  }

  private func settings(_ text: LoadedText) -> UpstreamPass? {
    guard let pass = text.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else {
      return nil
    }
    return pass
  }

  @Test func `what is said comes to settings, and what is not to defaults`() throws {
    let text = load(
      """
      proxy_auth digest basic; proxy_auth_user_file users; proxy_auth_space HTTPS://UP.test:8443 realm="a b";
      proxy_auth_space https://[::1];
      """)
    let auth = try #require(settings(text)?[UpstreamAuthSettings.self], "\(text.problems)")
    #expect(auth.schemes == [.basic, .digest] && auth.persistence == .session && auth.reloads)
    #expect(auth.users.description == "users")
    #expect(auth.spaces.map(\.host) == ["up.test", "::1"] && auth.spaces.map(\.port) == [8443, nil])
    #expect(auth.spaces[0].realm == Array("a b".utf8) && auth.spaces[1].realm == nil)
    #expect(settings(load(""))?[UpstreamAuthSettings.self] == nil)
  }

  @Test func `an inner off ends what is inherited`() {
    let outer = "proxy_auth digest; proxy_auth_user_file users;"
    #expect(settings(load("", http: outer))?[UpstreamAuthSettings.self] != nil)
    let off = load("proxy_auth off;", http: outer)
    #expect(settings(off)?[UpstreamAuthSettings.self] == nil && off.problems.isEmpty)
  }

  @Test func `NTLM speaks HTTP/1.1 over kept connections by itself`() throws {
    let pass = try #require(settings(load("proxy_auth ntlm; proxy_auth_user_file users;")))
    #expect(pass.version == .http11 && !pass.request.fields.contains { $0.name == Array("Connection".utf8) })
  }

  @Test func `a folder for what is permanent resolves against the file's`() {
    let text = load(
      "proxy_auth digest; proxy_auth_user_file u; proxy_auth_persistence permanent; proxy_auth_state var/auth;")
    #expect(settings(text)?[UpstreamAuthSettings.self]?.persistence == .permanent(folder: "/etc/var/auth"))
  }

  @Test(arguments: [
    ("proxy_auth digest;", "without \"proxy_auth_user_file\""),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_auth_persistence permanent;", "without \"proxy_auth_state\""),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_auth_state d;", "without \"proxy_auth_persistence permanent\""),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_set_header Authorization x;", "is set here and by proxy_auth"),
    ("proxy_auth ntlm; proxy_auth_user_file u; proxy_http_version 1.0;", "where a connection is not one user's"),
    ("proxy_auth ntlm; proxy_auth_user_file u; proxy_set_header Connection close;", "beside \"Connection close\""),
    (
      "proxy_auth ntlm; proxy_auth_user_file u; proxy_auth_space https://up.test:8443 realm=x;",
      "whose challenges have no realm"
    ),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_auth_space up.test;", "invalid protection space"),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_auth_space https://up.test/x;", "invalid host"),
    ("proxy_auth digest; proxy_auth_user_file u; proxy_auth_space https://up.test x;", "invalid parameter"),
    ("proxy_auth negotiate; proxy_auth_user_file u;", "negotiate"),
  ])
  func `contradictions are refused`(location: String, message: String) {
    let text = load(location)
    #expect(text.settings == nil && text.errors.contains { $0.contains(message) }, "\(text.problems)")
  }

  @Test func `whoever chooses the server must not get the passwords`() {
    let auth = "proxy_auth digest; proxy_auth_user_file u;"
    #expect(load(auth, pass: "https://$arg_host").errors.contains { $0.contains("with variables") })
    #expect(load(auth + " proxy_auth_space https://up.test;", pass: "https://$arg_host").errors.isEmpty)
  }

  @Test(arguments: [
    ("proxy_auth basic; proxy_auth_user_file u;", "http://up.test", "over plain http"),
    ("proxy_auth_user_file u;", "https://up.test", "has no effect"),
    (
      "proxy_auth digest; proxy_auth_user_file u; proxy_auth_space https://other.test;", "https://up.test",
      "no server of this proxy_pass"
    ),
  ])
  func `what is likely not meant is a warning`(location: String, pass: String, message: String) {
    let text = load(location, pass: pass)
    #expect(text.settings != nil && text.problems.contains { $0.contains("warning") && $0.contains(message) })
  }

  @Test func `what is meant has no warning`() {
    for (pass, space) in [
      ("https://up.test:8443", "https://up.test:8443"), ("https://group", "https://group"),
      ("https://group", "https://10.0.0.1:8443"),
    ] {
      let text = load(
        "proxy_auth basic digest ntlm; proxy_auth_user_file u; proxy_auth_space \(space);", pass: pass,
        http: "upstream group { server 10.0.0.1:8443; }")
      #expect(text.problems.isEmpty, "\(text.problems)")
    }
    let socket = load("proxy_auth basic; proxy_auth_user_file u;", pass: "http://unix:/run/up")
    #expect(!socket.problems.contains { $0.contains("plain http") })
  }
}
