import Observability
@testable import Review
import TestSupport
import Testing

@Suite struct `Many messages of one cause` {
  private func lines(_ text: String, _ files: [String: String] = [:], detail: CheckReport.Detail = .summary) throws
    -> [String]
  {
    let scene = try Scene()
    defer { scene.end() }
    for (name, text) in files { try scene.write(name, text: text) }
    let path = try scene.write("test.conf", text: text)
    return Check(path, .files).report(isStrict: false, detail: detail).lines(isColoured: false).map {
      $0.replacing("\(scene.folder)/", with: "")
    }
  }

  @Test func `are told as one, with how many there are of each and where`() throws {
    let parameters = (1...21).map { "memcached_bind P\($0);" }.joined(separator: "\n")
    let text = """
      events {}
      http { server { listen 80; location / {
      include lines;
      memcached_pass 127.0.0.1:9000;
      } } }
      """
    let told = try lines(text, ["lines": parameters])
    #expect(told.count { $0.contains("error:") } == 1, "\(told)")
    #expect(told.contains("    and 21 more: `memcached_bind` ×21 in lines:1-21"), "\(told)")
    #expect(told.last == "configuration test.conf is not valid: 22 errors, 1 warning", "\(told)")
    let all = try lines(text, ["lines": parameters], detail: .everything)
    #expect(all.count { $0.contains("error:") } == 22)
  }

  @Test func `are as many lines for many files as for one`() throws {
    let files = Dictionary(
      uniqueKeysWithValues: (1...258).map { number in
        let more = "listen 127.0.0.1:80; location / { proxy_pass https://app\(number):443; memcached_pass x; }"
        return ("app\(number).site", "server { \(more) }")
      })
    let told = try lines("events {} http { include *.site; }", files)
    #expect(told.count < 20, "\(told)")
    #expect(told.contains { $0.contains("258 https upstreams without trust: https://app") }, "\(told)")
    #expect(told.contains { $0.contains("one line at the level of http covers them: proxy_ssl_verify on;") }, "\(told)")
  }

  @Test func `are told one by one where each has its own advice`() throws {
    let told = try lines("events {} http { server { lisen 1; servr_name a; roott b; indexx c; } }")
    #expect(told.count { $0.contains("error: unknown directive") } == 4, "\(told)")
    #expect(told.count { $0.contains("did you mean") } == 4, "\(told)")
  }

  @Test func `of policies are told once for server blocks that differ in their names alone`() throws {
    let servers = (1...40).map { "server { listen 127.0.0.1:80; server_name s\($0).test; return 204; }" }.joined()
    let told = try lines("events {} http { \(servers) }")
    #expect(told.count < 10 && told.contains { $0.hasPrefix("  the same for    s3.test, s4.test") }, "\(told)")
    let all = try lines("events {} http { \(servers) }", detail: .everything)
    #expect(all.count { $0.hasPrefix("server s") } == 40)
  }

  @Test func `notices stand behind the policy, and the last line counts warnings`() throws {
    let told = try lines(
      "events {} http { server { listen 127.0.0.1:80; server_name a/b; access_log off; sendfile on; return 204; } }")
    let policy = try #require(told.firstIndex { $0.hasPrefix("server a/b") }, "\(told)")
    #expect(told.prefix(policy).contains { $0.contains("warning: ") }, "\(told)")
    #expect(!told.prefix(policy).contains { $0.contains("notice: ") }, "\(told)")
    #expect(told.last == "configuration test.conf is valid, 1 warning", "\(told)")
  }

  @Test func `have a code for programs that holds no name, number or path`() {
    let name = "x.test", file = "/etc/x.pem"
    #expect(Diagnostic(.error, at: nil, "host not found in upstream \"\(name)\"").code == "host-not-found-in-upstream")
    // As a message is that came as a whole.
    let whole = String("\"\(file)\": cannot be opened: 13 Permission denied")
    #expect(Diagnostic(.error, at: nil, whole).code == "cannot-be-opened-permission-denied")
  }
}
