import Foundation
import TestSupport
import Testing

/// The command `sallyport ways` with its options, as a person and a build server call it.
@Suite(.staged) struct `sallyport ways` {
  private struct Report: Decodable {
    struct Destination: Decodable {
      struct Way: Decodable {
        var openTo: String
        var location: String
        var seen: String?
      }
      var destination: String
      var openTo: String
      var ways: [Way]
    }
    var complete: Bool
    var destinations: [Destination]
  }

  private func text(_ lines: String = "") -> String {
    """
    events {}
    http {
      server {
        listen 127.0.0.1:8443 ssl; server_name erp.test; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:3001; }
        location /admin/ { ssl_client_allow cn=boss; proxy_pass http://127.0.0.1:3002; }
        \(lines)
      }
    }
    """
  }

  @Test func `lists the ways for a person and for a program, all or some of them`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let path = try scene.write("ways.conf", text: text())
    let told = try await scene.sallyport("ways", path)
    #expect(told.status == 0, "\(told.everything)")
    #expect(told.text.contains("upstream http://127.0.0.1:3001: who has a certificate\n"), "\(told.text)")
    #expect(told.text.contains("seen      GET https://erp.test/admin/ at 127.0.0.1:8443, with a certificate CN=boss"))

    let json = try await scene.sallyport("ways", path, "--json")
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    let report = try decoder.decode(Report.self, from: Data(json.text.utf8))
    #expect(report.complete && report.destinations.map(\.openTo) == ["certificate", "rules"], "\(json.text)")
    #expect(report.destinations.flatMap(\.ways).allSatisfy { $0.seen != nil })

    let one = try await scene.sallyport("ways", path, "--to", "http://127.0.0.1:3002")
    #expect(one.text.contains("http://127.0.0.1:3002") && !one.text.contains("http://127.0.0.1:3001"), "\(one.text)")
    let joe = try await scene.sallyport("ways", path, "--who", "CN=joe")
    #expect(joe.text.contains("http://127.0.0.1:3001") && !joe.text.contains("http://127.0.0.1:3002"), "\(joe.text)")
    let nobody = try await scene.sallyport("ways", path, "--who", "nobody")
    #expect(nobody.text == "no way\n" && nobody.status == 0, "\(nobody.everything)")
  }

  @Test func `compares with an older file, and its status says whether a way asks for less`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let old = try scene.write("old.conf", text: text())
    let new = try scene.write("new.conf", text: text("location /x/ { proxy_pass http://127.0.0.1:3002; }"))
    let worse = try await scene.sallyport("ways", new, "--than", old)
    #expect(worse.status == 2 && worse.text.contains("location /x/"), "\(worse.everything)")
    let same = try await scene.sallyport("ways", old, "--than", old)
    #expect(same.status == 0 && same.text.isEmpty, "\(same.everything)")
  }

  @Test func `names the fault of a file, and of a client that can't be read`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let broken = try await scene.sallyport("ways", scene.write("x.conf", text: text("alow all;")))
    #expect(broken.status == 1 && broken.everything.contains("x.conf:8:"), "\(broken.everything)")
    let path = try scene.write("ways.conf", text: text())
    let who = try await scene.sallyport("ways", path, "--who", "nobody.crt")
    #expect(who.status == 1 && who.everything.contains("--who \"nobody.crt\""), "\(who.everything)")
  }
}
