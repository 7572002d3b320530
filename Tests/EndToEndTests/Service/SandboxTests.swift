import CLinux
import Foundation
import Glibc
import TestSupport
import Testing

/// The daemon in its sandbox, which is on wherever the configuration says nothing. What the kernel refuses there is in
/// SandboxTests/SandboxTests.swift.
@Suite(
  .staged,
  .enabled(
    if: linux_landlock_version() > 0 && ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil,
    "the kernel has no Landlock, or the build has a sanitizer"))
struct `A daemon in its sandbox` {
  private func threads(_ daemon: Sallyport) throws -> [[String: String]] {
    let folder = "/proc/\(daemon.process.identifier)/task"
    return try FileManager.default.contentsOfDirectory(atPath: folder).compactMap { thread in
      guard let text = try? String(contentsOfFile: "\(folder)/\(thread)/status", encoding: .utf8) else { return nil }
      return Dictionary(
        text.split(separator: "\n").compactMap { line in
          line.firstIndex(of: ":").map {
            (String(line[..<$0]), line[line.index(after: $0)...].split(separator: "\t").joined(separator: " "))
          }
        }, uniquingKeysWith: { first, _ in first })
    }
  }

  private func answer(_ scene: Scene, _ port: UInt16, _ path: String) async throws -> String {
    try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).text
  }

  @Test(arguments: [("", "2"), ("sandbox seccomp;", "2"), ("sandbox landlock;", "0"), ("sandbox off;", "0")])
  func `every thread has the filter of calls, and none can gain a right`(line: String, filter: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let upstream = try ScriptedUpstream.echo(scene)
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port); location / { proxy_pass http://localhost:\(upstream.port); } }",
      main: line)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
    let threads = try threads(daemon)
    #expect(threads.count > 2)
    for thread in threads {
      #expect(thread["NoNewPrivs"] == "1" && thread["Seccomp"] == filter, "\(thread)")
      if geteuid() == 0 { #expect(thread["CapBnd"] == "0000000000000000", "\(thread)") }
    }
    let words =
      switch line {
      case "": "files restricted by Landlock"
      case "sandbox landlock;": "system calls unrestricted"
      default: "files unrestricted"
      }
    try await daemon.logged("sandbox: ", words)
  }

  @Test(.enabled(if: geteuid() == 0, "only root has something to give up"))
  func `no thread of it has root's user or a capability`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let upstream = try ScriptedUpstream.echo(scene)
    let daemon = try Sallyport(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port); location / { proxy_pass http://localhost:\(upstream.port); } }"),
      userAsWritten: true)
    try await daemon.untilReady()
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
    let nobody = try #require(getpwnam("nobody")?.pointee.pw_uid)
    for thread in try threads(daemon) {
      #expect(thread["Uid"] == Array(repeating: "\(nobody)", count: 4).joined(separator: " "), "\(thread)")
      for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        #expect(thread[set] == "0000000000000000", "\(set): \(thread)")
      }
      #expect(thread["NoNewPrivs"] == "1" && thread["Seccomp"] == "2")
    }
  }

  @Test func `a file outside is not served, whatever became of the folder`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let (served, hidden) = try (scene.makeFolder("etc/www"), scene.makeFolder("hidden"))
    try scene.write("etc/www/a.txt", text: "inside")
    try scene.write("hidden/a.txt", text: "outside")
    let text = configuration("server { listen 127.0.0.1:\(port); root \(served); }")
    // The configuration itself is in the scene's folder, which would grant all of it.
    try scene.write("etc/own.conf", text: "")
    let daemon = try Sallyport(scene, text, name: "etc/sallyport")
    _ = try await waiting(for: "the daemon") { scene.text("etc/sallyport.pid").isEmpty ? nil : true }
    #expect(try await answer(scene, port, "/a.txt") == "inside")
    // As a compromised process would: the path stays, and something else is behind it.
    rename(served, served + ".old")
    symlink(hidden, served)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/a.txt"]).status == 403)
    _ = daemon
  }

  @Test func `a reload may use new files of its folders, and is refused where it needs another`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    try scene.makeFolder("etc")
    try scene.makeFolder("other")
    let inside = "server { listen 127.0.0.1:\(port); location / { return 200 one; } "
    let daemon = try Sallyport(scene, configuration(inside + "}"), name: "etc/sallyport")
    _ = try await waiting(for: "the daemon") { scene.text("etc/sallyport.pid").isEmpty ? nil : true }
    try scene.write(
      "etc/sallyport.conf",
      text: Sallyport.withUser(
        configuration(
          inside
            + "access_log \(scene.path("etc/new.log")); location /w { root \(scene.path("etc")); } }")))
    daemon.signal(SIGHUP)
    _ = try await waiting(for: "the reload") { scene.text("etc/error.log").contains("generation 2") ? true : nil }
    try scene.write(
      "etc/sallyport.conf",
      text: Sallyport.withUser(
        configuration(
          inside
            + "location /in { auth_basic x;\nauth_basic_user_file \(scene.path("other/users")); root \(scene.folder)/etc; } }"
        )))
    try scene.write("other/users", text: "a:{PLAIN}b\n")
    daemon.signal(SIGHUP)
    _ = try await waiting(for: "the refusal") {
      scene.text("etc/error.log").contains("outside the folders that the sandbox left the process") ? true : nil
    }
    #expect(scene.text("etc/error.log").contains("generation 2 serves on"))
    #expect(try await answer(scene, port, "/") == "one")
  }

  @Test func `the unit leaves the service little`() async throws {
    let scene = try Scene.ofTest()
    let result = try await scene.run(
      "systemd-analyze", ["security", "--no-pager", "--offline=yes", "\(checkout)/deploy/sallyport.service"])
    let number = result.text.firstMatch(of: /exposure level for sallyport.service: ([0-9.]+)/)?.output.1
    #expect(Double(number ?? "10") ?? 10 <= 1.2, "\(result.everything)")
    // systemd before 254 has no group of calls that names these; without them the daemon could not restrict itself.
    let unit = try String(contentsOfFile: "\(checkout)/deploy/sallyport.service", encoding: .utf8)
    for call in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"] {
      let line = unit.split(separator: "\n").first { $0.hasPrefix("SystemCallFilter=landlock_") }
      #expect(line?.contains(call) == true, "\(call)")
    }
  }
}
