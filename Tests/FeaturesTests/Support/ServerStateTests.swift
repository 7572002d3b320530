import ConfigurationSupport
@testable import Features
@testable import Forward
import Language
import Testing
@testable import Traffic

@Suite struct `The state of a group` {
  @Test(
    arguments: [
      #"unix:/x;}"#, #"unix:/x;\nserver localhost:1"#, #"unix:/x;\ninclude /etc/hostname"#, #"unix:/x down"#,
      #"unix:/x\tbackup"#, #"unix:/x{"#, #"unix:/x}"#, #"unix:/\"x\""#, #"unix:/'x"#, #"unix:/x\\"#, #"unix:/x#"#,
      #"unix:/$x"#, #"unix:/x\r"#, #"unix:/x\u0000"#, #"unix:/x\u001b[31m"#, #"unix:/x\u007f"#, #"unix:/x\u009b31m"#,
      #"unix:/x\u2028"#, #"unix:/x\u00a0"#, #"unix:/x\u202e"#,
    ], [false, true])
  func `an address that a list or the language would show as something else is refused`(
    address: String, isOfStream: Bool
  ) {
    #expect(throws: APIFault.self) {
      _ = try APINewServerBody(Array("{\"server\":\"\(address)\"}".utf8), isOfStream: isOfStream)
    }
  }

  @Test(arguments: ["unix:/run/app.sock", "unix:/run/a-b_c~1@x,y=z+[0]/é", "127.0.0.1:80", "[::1]:8080"])
  func `any other address is taken, and read back`(address: String) throws {
    for isOfStream in [false, true] {
      let body = try APINewServerBody(Array("{\"server\":\"\(address)\"}".utf8), isOfStream: isOfStream)
      #expect("\(body.address)" == address)
      let text = try ServerState.text([["server", address, "weight=2", "down"]], isOfStream: isOfStream)
      let read = try ServerState.servers(Array(text.utf8), path: "s", isOfStream: isOfStream)
      #expect(read.map { $0.arguments.map(\.text) } == [[address, "weight=2", "down"]])
    }
  }

  /// They come from a file that somebody wrote by hand, so that a change of another server must not break them.
  @Test(arguments: ["unix:/a b", "unix:/a;}", "unix:/a\nserver localhost:1", "unix:/a\"'\\$x{#", "unix:/a\\n\t\r"])
  func `a path of the file is written so that it is read back as the same one`(address: String) throws {
    let lines = [["server", address, "max_conns=3"], ["server", "127.0.0.1:80"]]
    let text = try ServerState.text(lines, isOfStream: false)
    #expect(text.utf8.count { $0 == 0x0A } == 2)
    let read = try ServerState.servers(Array(text.utf8), path: "s", isOfStream: false)
    #expect(read.map { [$0.name] + $0.arguments.map(\.text) } == lines)
  }

  @Test func `lines that would be read as other ones are not written`() {
    for line in [
      ["server", "unix:/a\0"], ["server", "unix:a"], ["server"], ["listen", "80"],
      ["server", "127.0.0.1:80", "wait=1"],
      [],
    ] {
      #expect(throws: ServerState.Fault.self, "\(line)") { _ = try ServerState.text([line], isOfStream: false) }
    }
    // `stream` has no `sticky`.
    #expect(throws: ServerState.Fault.self) {
      _ = try ServerState.text([["server", "127.0.0.1:80", "drain"]], isOfStream: true)
    }
  }

  @Test(arguments: [
    "server 127.0.0.1:80;\nserver 127.0.0", "server 127.0.0.1:80", "server", "server;", "listen 80;", "\0\0\0\0",
    "include /etc/hostname;", "include /etc/host*;", "server 127.0.0.1:80 weight=0;", "server 127.0.0.1:80 { }",
    "server app.example.com:80 resolve;", "}", "\"", "\u{FEFF}server 127.0.0.1:80;", "{\"a\":\"b\"}",
  ])
  func `a file with anything else is damaged`(text: String) {
    #expect(throws: ServerState.Fault.self) {
      _ = try ServerState.servers(Array(text.utf8), path: "s", isOfStream: false)
    }
    let bytes = Array("\u{D6}".utf16.map { UInt8(truncatingIfNeeded: $0) }) + Array(text.utf8)
    #expect(throws: ServerState.Fault.self) { _ = try ServerState.servers(bytes, path: "s", isOfStream: false) }
  }

  @Test func `a body that drains a server of stream is refused`() throws {
    #expect(throws: APIFault.self) {
      _ = try APINewServerBody(Array(#"{"server":"127.0.0.1:80","drain":true}"#.utf8), isOfStream: true)
    }
    _ = try APINewServerBody(Array(#"{"server":"127.0.0.1:80","drain":true}"#.utf8), isOfStream: false)
  }
}
