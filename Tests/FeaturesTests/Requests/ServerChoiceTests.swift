@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The choice of a server` {
  private func chosen(_ names: [String], _ host: String) throws -> String {
    let blocks = names.map { name in
      "server { listen 1080; server_name \(name); return 200 \"\(name.replacing("$", with: ""))\"; }"
    }
    let answer = try Rig(blocks.joined()).answer("GET / HTTP/1.1\r\nHost: \(host)\r\n\r\n")
    return answer.split(separator: "\r\n\r\n").last.map(String.init) ?? ""
  }

  @Test(arguments: [
    ("www.a.test", "www.a.test"), ("WWW.A.Test:1080", "www.a.test"), ("www.a.test.", "www.a.test"),
    ("x.a.test", "*.a.test"), ("x.y.a.test", "*.y.a.test"), ("a.test", "default.test"), ("b.test", ".b.test"),
    ("x.b.test", ".b.test"), ("www.z", "www.*"), ("www.b.test", ".b.test"), ("mail7", "~^mail\\d+"),
    ("mailx", "default.test"), ("unknown", "default.test"),
  ])
  func `goes by exact name, leading wildcard, trailing wildcard, regular expression`(
    host: String, expected: String
  ) throws {
    let names = ["default.test", "~^mail\\d+$", "www.*", "*.a.test", ".b.test", "*.y.a.test", "www.a.test"]
    #expect(try chosen(names, host) == expected)
  }

  @Test func `a named capture of the server's name is a variable`() throws {
    let rig = try Rig(
      """
      server { listen 1080; return 200 default; }
      server { listen 1080; server_name ~^(?<who>\\w+)\\.users$; return 200 "$who $1"; }
      """)
    #expect(try rig.answer("GET / HTTP/1.1\r\nHost: Alice.users\r\n\r\n").hasSuffix("\r\n\r\nalice alice"))
  }
}
