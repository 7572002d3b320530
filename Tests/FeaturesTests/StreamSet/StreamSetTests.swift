import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

/// `set` of `stream`.
@Suite struct `A variable that a session sets` {
  private func answer(_ lines: String) throws -> String {
    let client = try TCPClient(try Rig.stream(lines))
    return client.heard()
  }

  @Test func `it is known to what comes after it, limits and maps too`() throws {
    let map = "map $x $m { 192.0.2.1 known; default other; }"
    #expect(
      try answer("\(map) server { listen 127.0.0.1:1; set $x $remote_addr; set $y <$x>; return \"$y $m\"; }")
        == "<192.0.2.1> known")
    #expect(
      try answer(
        """
        limit_conn_zone $x zone=z:1m;
        server { listen 127.0.0.1:1; set $x a; limit_conn z 1; return $limit_conn_status; }
        """) == "PASSED")
  }

  @Test func `it names the upstream`() throws {
    let rig = try Rig.stream(
      "upstream a { server 127.0.0.1:9; } server { listen 127.0.0.1:1; set $to a; proxy_pass $to; }")
    let client = try TCPClient(rig)
    #expect(rig.upstreams.count == 1 && !client.hasEnd)
  }

  @Test func `a variable of nginx's can't be set`() {
    #expect(
      LoadedText.streamServer("return a; set $remote_addr b;").errors.first?.contains(
        "the duplicate \"remote_addr\" variable") == true)
    #expect(LoadedText.streamServer("return a; set x b;").errors.first?.contains("invalid variable name \"x\"") == true)
    // A variable of http is nobody's here.
    #expect(LoadedText.streamServer("set $uri b; return $uri;").errors == [])
  }
}
