import Bytes
import ConfigurationSupport
import Crypto
import Enrolment
import Observability
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

/// What `auth_basic_user_file` names.
@Suite struct `The file of passwords` {
  private func loaded(_ server: String, _ file: String) -> LoadedText {
    LoadedText(
      "http { server { listen 80; \(server) location / { auth_basic x; auth_basic_user_file \(file); stub_status; } } }"
    )
  }

  private func source(_ server: String, _ file: String) -> AuthBasic.Users? {
    loaded(server, file).settings?.http.servers.first?.root.locations.first?[AuthBasic.self]?.source
  }

  @Test func `a variable to which set always gives the same text is that text`() throws {
    let written = try #require(source("", "/srv/users"))
    #expect(source("set $u /srv/users;", "$u") == written)
    #expect(source("set $u /srv;", "$u/users") == written)
    #expect(source("set $u users;", "$u") == source("", "users"))
    guard case .named(let path, _)? = source("set $u /srv/users;", "$u/$host") else {
      return #expect(Bool(false), "a request names it")
    }
    #expect(path.beginsWithSlash && path.parts.count == 2)
    // Of several, the folder that they have in common is fixed.
    guard case .named(let several, _)? = source("set $u users/a; if ($arg_x) { set $u users/b; }", "$u") else {
      return #expect(Bool(false), "one of two")
    }
    #expect(several.parts.first == .literal(Array("users/".utf8)) && several.parts.count == 2)
  }

  private func asking(_ file: String) throws -> Rig {
    try Rig(
      "server { listen 80; set $f /nowhere/users; auth_basic x; auth_basic_user_file \(file); location / { stub_status; } }"
    )
  }

  @Test func `one that variables name may be missing, and who is asked for its passwords gets 403`() throws {
    let rig = try asking("$f")
    #expect(rig.faults.map(\.severity) == [.warning])
    #expect(try asking("/nowhere/users").faults.map(\.severity) == [.error])
    let file = try MaterialReference(parsing: "/nowhere/users", relativeTo: "", location: nil, isKey: false)
    func verdict(_ mayBeMissing: Bool) -> PasswordVerdict {
      let password = SecretBytes(copying: UnsafeRawBufferPointer(start: nil, count: 0))
      return PasswordVerdict(
        on: [], password, by: file, mayBeMissing: mayBeMissing, nil, from: "", rig.worker.shared.enrolment)
    }
    guard case .missing = verdict(true), case .broken = verdict(false) else { return #expect(Bool(false)) }
  }

  @Test(arguments: [
    "", "set $u $host;", "set $u /a; if ($arg_x) { set $u /b; }", "if ($arg_x) { set $u /srv/a; }",
  ])
  func `one that a request may choose is refused`(server: String) {
    let lines = server.isEmpty ? "location /y { set $u /a; }" : server
    #expect(loaded(lines, "$u").errors.first?.contains("begins with a variable") == true)
  }
}
