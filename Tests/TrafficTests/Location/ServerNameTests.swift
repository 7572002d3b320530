import ConfigurationSupport
@testable import Features
@testable import Forward
import Patterns
import Testing
@testable import Traffic

@Suite struct ServerNameTests {
  @Test func `the same name twice on an address is the first server's`() {
    #expect(
      LoadedText(
        "http { server { listen 80; server_name a; return 204; }\nserver { listen 80; server_name A; return 204; } }"
      ).problems == [
        "2:1 warning: conflicting server name \"a\" on 0.0.0.0:80, ignored | the server at /etc/x.conf:1:8 has the name"
      ])
  }

  @Test func `names are exact, wildcard or regex`() throws {
    let server = try #require(
      LoadedText(
        "http { server { listen 80; server_name Example.COM *.a.org .b.org www.c.*; server_name ~^(?<sub>.+)\\.d$ \"\"; return 200 $sub; } }"
      ).settings?.http.servers.first)
    #expect(server.primaryName == "example.com")
    let kinds = server.names.map { name -> String in
      switch name {
      case .exact(let text): "exact \(text)"
      case .leadingWildcard(let suffix, let bare): "leading \(suffix) \(bare)"
      case .trailingWildcard(let prefix): "trailing \(prefix)"
      case .regex(let pattern, let slots): "regex \(pattern.pattern) \(slots.map { "\($0.group):\($0.slot)" })"
      }
    }
    #expect(
      kinds == [
        "exact example.com", "leading .a.org false", "leading .b.org true", "trailing www.c.",
        "regex ^(?<sub>.+)\\.d$ [\"1:0\"]", "exact ",
      ])
  }

  @Test(arguments: ["*", "*x.org", "a.*.org", "*.a.*", "a..b", "*.", "."])
  func `a wildcard inside a label is refused`(name: String) {
    #expect(
      LoadedText("http { server { listen 80; server_name \(name); return 204; } }").errors.first?.hasPrefix(
        "1:40 invalid server name or wildcard \"\(name)\"") == true)
  }

  @Test func `a pattern that does not compile has its place`() {
    let errors = LoadedText("http { server { listen 80; server_name ~(; return 204; } }").errors
    #expect(errors.count == 1)
    #expect(errors.first?.hasPrefix("1:40 invalid regular expression \"(\": ") == true)
  }
}
