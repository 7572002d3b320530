import Crypto
import Foundation
import Review
import TestSupport
import Testing

/// The servers that a client must refuse, and the loops of guide.md over all of them.
@Suite(.staged) struct `The demo's bad servers` {
  private struct Bench {
    let scene: Scene
    let demo: Demo
    let first: UInt16

    init() async throws {
      scene = try Scene.ofTest()
      first = try scene.ports(UInt16(BadServer.allCases.count + 1))
      demo = try await Demo(scene, folder: "a \"demo\"", ["--bad-servers", "\(first)"])
    }

    func report(_ words: String...) async throws -> ToolResult {
      try await scene.run(Sallyport.binary(), ["demo", "--report", "--dir", demo.folder] + words)
    }

    /// Runs a loop as the guide has it, and returns which servers the client accepted, of those that it tried.
    func run(_ language: String, file: String, _ command: String) async throws -> (accepted: [String], tried: Int) {
      let path = try scene.write(file, text: demo.instructions("A loop for \(language)"))
      let result = try await scene.run(
        command, (command == "go" ? ["run"] : []) + [path],
        environment: ["GOCACHE": "\(checkout)/.build/go-cache", "GO111MODULE": "off"], within: .seconds(240))
      let lines = result.text.split(separator: "\n").map { $0.split(separator: " ") }.filter { $0.count > 1 }
      #expect(lines.allSatisfy { $0[1] == "accepted" || $0[1] == "refused" }, "\(result.everything)")
      return (lines.filter { $0[1] == "accepted" }.map { String($0[0]) }, lines.count)
    }
  }

  private static let languages: [(String, file: String, command: String)] = [
    ("curl", "loop.sh", "sh"), ("Python", "loop.py", "python3"), ("Node.js", "loop.mjs", "node"),
    ("Go", "loop.go", "go"),
  ]

  @Test(arguments: languages.indices)
  func `the guide's loop shows that a client which verifies refuses them, and the report says so`(
    language: Int
  ) async throws {
    let (name, file, command) = Self.languages[language]
    guard await Scene.succeeds(command, command == "go" ? ["version"] : [command == "sh" ? "-c" : "--version", ":"])
    else { return }
    let bench = try await Bench()
    let (accepted, tried) = try await bench.run(name, file: file, command)
    #expect(tried == BadServer.allCases.count)
    // Node.js has its own OpenSSL, which takes keys of 1024 bits, and Go takes them, too.
    let isLax = name == "Node.js" || name == "Go"
    #expect(accepted.filter { !isLax || $0 != "weak-key" } == ["good"], "\(accepted)")
    let report = try await (isLax ? bench.report("--may-accept", "weak-key") : bench.report())
    #expect(report.status == 0 && report.text.contains("refused each bad server"), "\(report.everything)")
  }

  @Test func `a client that verifies nothing is found out, server by server`() async throws {
    let bench = try await Bench()
    for server in BadServer.allCases {
      let old = server == .oldTLS ? ["--tls-max", "1.1", "--tlsv1.0", "--ciphers", "DEFAULT@SECLEVEL=0"] : []
      let answer = try await bench.scene.curl(
        ["-k", "-A", "careless/1"] + old + ["https://localhost:\(server.port(after: bench.first))/"])
      #expect(answer.text.hasPrefix(server == .good ? "good: " : "ACCEPTED"), "\(server): \(answer.errors)")
    }
    let report = try await bench.report()
    #expect(report.status == 1, "\(report.everything)")
    for server in BadServer.allCases where server != .good {
      #expect(report.text.contains("FAULT: \(server.rawValue) was accepted"), "\(report.text)")
    }
    #expect(report.text.contains("careless/1"))
    let json =
      try JSONSerialization.jsonObject(with: Data(try await bench.report("--json").text.utf8)) as? [String: Any]
    #expect(json?["passed"] as? Bool == false && (json?["connections"] as? [Any])?.count == BadServer.allCases.count)
  }

  @Test func `on the first port the name chooses, and each server has the fault that it says, and no other`()
    async throws
  {
    let bench = try await Bench()
    let authority = bench.demo.file("ca.crt")
    for (server, reason) in [
      (BadServer.expired, "certificate has expired"), (.notYetValid, "certificate is not yet valid"),
      (.wrongName, "no alternative certificate subject name matches"), (.wrongUsage, "purpose"),
      (.selfSigned, "self-signed certificate"), (.wrongCA, "unable to get local issuer certificate"),
      (.noIntermediate, "unable to get local issuer certificate"), (.weakKey, "EE certificate key too weak"),
      (.oldTLS, "SSL routines"),
    ] {
      let name = "\(server.rawValue).localhost"
      let answer = try await bench.scene.curl(["--cacert", authority, "https://\(name):\(bench.first)/"])
      #expect(answer.exit != 0 && answer.errors.contains(reason), "\(server): \(answer.errors)")
    }
    // Whoever pins no key and asks for no revocation sees nothing wrong in these.
    for server in [BadServer.wrongPin, .revoked] {
      let answer = try await bench.scene.curl(
        ["--cacert", authority, "https://\(server.rawValue).localhost:\(bench.first)/"])
      #expect(answer.text.hasPrefix("ACCEPTED"), "\(server): \(answer.errors)")
    }
    let stapled = try await bench.scene.curl(
      ["--cacert", authority, "--cert-status", "https://revoked.localhost:\(bench.first)/"])
    #expect(stapled.errors.contains("revocation reason"), "\(stapled.errors)")
    let report = try await bench.report("--may-accept", "wrong-pin", "--may-accept", "revoked")
    #expect(report.status == 1 && report.text.contains("no client accepted the good server"), "\(report.text)")
  }

  @Test func `without them there is no report, and their ports are not the demo's`() async throws {
    let scene = try Scene.ofTest()
    let none = try await scene.sallyport("demo", "--report", "--dir", scene.path("none"))
    #expect(none.status == 1 && none.errors.contains("--bad-servers"), "\(none.everything)")
    for words in [["--bad-servers", "8440"], ["--bad-servers", "65535"], ["--json"]] {
      let refused = try await scene.run(Sallyport.binary(), ["demo", "--dir", scene.path("none")] + words)
      #expect(refused.status == 64, "\(words): \(refused.everything)")
    }
  }
}
