import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport compose` {
  private static let file = """
    services:
      web: {image: example.com/web}
      api: {image: example.com/api}
      db:
        image: postgres
    """

  private struct Seen: Decodable {
    let first: String
    let upSeconds: Double
    let answers: [String]
    let echoed: String
    /// Who asks for a name that no service has; who goes past the sidecars; who shows no certificate; who uses another's sidecar.
    let other: String
    let direct: String
    let beside: String
    let relay: String
    let counts: [String: [String: Int]]
    let outSeconds: Double
    let endedSeconds: Double
    let after: String
  }

  private static let namespaces = ConditionTrait.enabled("no root, network namespaces, or PyYAML") {
    guard geteuid() == 0 else { return false }
    return await Scene.succeeds(
      "sh", ["-c", "unshare -n ip link add x type bridge && command -v curl && python3 -c 'import yaml'"])
  }

  @Test(namespaces)
  func
    `no byte in clear passes between services, nobody comes in without a certificate, and a stopped service is out in 5 s`()
    async throws
  {
    let scene = try Scene.ofTest()
    let file = try scene.write("compose.yaml", text: Self.file)
    let made = try await scene.sallyport("compose", file, "web", "api:8080", "db:5432/tcp")
    try #require(made.status == 0, "\(made.everything)")
    let override = try scene.write("override.yaml", text: made.text)
    let script = try scene.write("compose.py", text: ComposeScript.text)
    let ran = try await scene.run(
      "python3", [script, override, Sallyport.binary(), try scene.makeFolder("machine"), "web,api,db"],
      within: .seconds(200))
    try #require(ran.status == 0, "\(ran.everything) \(scene.text("machine/out"))")
    let line = try #require(ran.text.split(separator: "\n").last)
    let seen = try JSONDecoder().decode(Seen.self, from: Data(line.utf8))
    #expect(seen.first == "a-secret-in-clear CN=web|200" && seen.upSeconds < 60)
    #expect(seen.answers.allSatisfy { $0 == "a-secret-in-clear CN=web|200" }, "\(seen.answers)")
    #expect(seen.echoed == "a-secret-in-clear")
    // The counter sees: in clear beside the service's own sidecar, and never between sidecars.
    let (mesh, inner) = (try #require(seen.counts["mesh"]), try #require(seen.counts["inner"]))
    #expect(mesh["clear"] == 0 && mesh["frames"] ?? 0 > 40, "\(mesh)")
    #expect(inner["clear"] ?? 0 >= 20, "\(inner)")
    #expect(seen.other.hasSuffix("|421") && seen.beside.hasSuffix("|400"), "\(seen.other) \(seen.beside)")
    for refused in [seen.direct, seen.relay] { #expect(refused.hasSuffix("|000"), "\(refused)") }
    #expect(seen.outSeconds < 6 && seen.endedSeconds < 7 && !seen.after.hasSuffix("|200"), "\(seen)")
  }

  @Test func `a file that it can't read as compose does is refused with line and hint`() async throws {
    let scene = try Scene.ofTest()
    let file = try scene.write("compose.yaml", text: Self.file + "\n  x: &anchor {}\n")
    let refused = try await scene.sallyport("compose", file, "web")
    #expect(refused.status == 1 && refused.errors.contains("line 6: an anchor\n    hint: "), "\(refused.everything)")
    let none = try await scene.sallyport("compose", scene.path("none"), "web")
    #expect(none.status == 1 && none.errors.contains("No such file"), "\(none.everything)")
    for words in [["web:0"], ["web", "--subnet", "10"], ["web", "--image", "a b"], []] {
      let wrong = try await scene.run(Sallyport.binary(), ["compose", file] + words)
      #expect(wrong.status == 64, "\(words): \(wrong.everything)")
    }
  }

  @Test func `the identities are made, kept, and taken away`() async throws {
    let scene = try Scene.ofTest()
    let (authority, services) = try (scene.makeFolder("authority"), scene.makeFolder("services"))
    let words = ["compose", "identities", authority, services, "api", "web", "--once", "--owner", "\(geteuid())"]
    let first = try await scene.run(Sallyport.binary(), words)
    #expect(first.status == 0 && first.text.split(separator: "\n").count == 2, "\(first.everything)")
    #expect(try await scene.run(Sallyport.binary(), words).text.isEmpty)
    #expect(try await scene.sallyport("compose", "stop", "api", "--authority", authority).status == 0)
    #expect(try await scene.run(Sallyport.binary(), words).text.contains("api: stopped"))
    #expect(try await scene.sallyport("compose", "start", "api", "--authority", authority).status == 0)
    #expect(try await scene.run(Sallyport.binary(), words).text.hasPrefix("api: certificate "))
    #expect(try await scene.sallyport("ca", "inspect", "\(services)/api/identity.pem").status == 0)
  }
}
