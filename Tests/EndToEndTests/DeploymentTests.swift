import Foundation
import Glibc
import TestSupport
import Testing

/// What people paste: README's first page, the head of the unit, the compose file. Each is run from the file itself.
@Suite(.staged) struct `What is there to be pasted` {
  private func file(_ name: String) throws -> String {
    try String(contentsOfFile: "\(checkout)/\(name)", encoding: .utf8)
  }

  @Test func `the first page of README runs as pasted, from an empty folder to 200`() async throws {
    let scene = try Scene.ofTest()
    let section = try #require(
      file("README.md").split(separator: "\n## ").first { $0.hasPrefix("A first configuration") })
    let page = try #require(section.split(separator: "\nThe first `curl`").first)
    let block = page.split(separator: "\n", omittingEmptySubsequences: false).filter {
      $0.hasPrefix("    ") || $0.isEmpty
    }
    .map { $0.dropFirst(4) }.joined(separator: "\n")
    for command in ["ca init", "ca issue", "check --config", "run --config"] {
      #expect(block.contains("sallyport \(command)"), "\(command)")
    }
    // The application on port 3000.
    let (front, back) = try (scene.port(), scene.port())
    _ = try await Sallyport.start(
      scene,
      """
      pid \(scene.path("application.pid"));
      events {}
      http { server { listen 127.0.0.1:\(back); return 200 "hello, $http_x_client_dn\\n"; } }
      """, name: "application")
    #expect(block.contains("proxy_pass http://127.0.0.1:3000;"))
    let script = try scene.write(
      "pasted.sh",
      text: "set -e\ncd empty\n"
        + block.replacing("8443", with: "\(front)").replacing("127.0.0.1:3000", with: "127.0.0.1:\(back)")
        + "\nkill %1\nwait\n")
    try scene.makeFolder("empty")
    try scene.makeFolder("bin")
    symlink(try Sallyport.binary(), scene.path("bin/sallyport"))
    let path = "\(scene.path("bin")):/usr/bin:/bin"
    let result = try await scene.run(
      "bash", [script], environment: ["PATH": path, "HOME": scene.folder, "NO_PROXY": "*"])
    #expect(result.status == 0, "\(result.everything)")
    #expect(result.text.contains("hello, CN=alice\n"), "\(result.everything)")
    #expect(result.text.contains("400 No required SSL certificate was sent"), "\(result.everything)")
    #expect(result.text.contains("configuration sallyport.conf is valid"))
  }

  @Test func `the head of the unit installs it on a system that has none of its folders`() async throws {
    let scene = try Scene.ofTest()
    let unit = try file("deploy/sallyport.service")
    let head = unit.split(separator: "\n\n").first.map(String.init) ?? ""
    let commands = head.split(separator: "\n").filter { $0.hasPrefix("#   ") }.map { $0.dropFirst(4) }
    let root = try scene.makeFolder("root")
    let script = commands.filter { $0.hasPrefix("install ") }.map {
      $0.replacing(" /usr/", with: " \(root)/usr/").replacing(" /etc/", with: " \(root)/etc/")
        .replacing(".build/release/sallyport", with: "$SALLYPORT")
    }
    #expect(script.count == 5)
    try await scene.succeed(
      "sh", "-ec", "cd \(checkout)\n" + script.joined(separator: "\n"), environment: ["SALLYPORT": Sallyport.binary()])
    for name in [
      "usr/local/bin/sallyport", "etc/sysusers.d/sallyport.conf", "etc/systemd/system/sallyport.service",
      "etc/systemd/system/sallyport.service.d/low-ports.conf",
      "etc/systemd/system/sallyport.service.d/systemd-252.conf",
    ] { #expect(access("\(root)/\(name)", R_OK) == 0, "\(name)") }
    #expect(access("\(root)/usr/local/bin/sallyport", X_OK) == 0)
    // The unit's own paths are those that its head installs to, and the user is made before it is needed.
    for path in ["/usr/local/bin/sallyport", "/etc/sallyport/sallyport.conf"] {
      #expect(unit.contains("\(path)") && head.contains(path), "\(path)")
    }
    let order = ["sysusers.d/sallyport.conf", "systemd-sysusers", "daemon-reload", "enable --now"]
      .compactMap { words in commands.firstIndex { $0.contains(words) } }
    #expect(order.count == 4 && order == order.sorted())
    #expect(try file("deploy/sysusers.d/sallyport.conf").contains("\nu sallyport "))
  }

  /// All of Tests/image: deploy/Dockerfile built, and its binary run as deploy/compose.yaml has it.
  @Test(.enabled(if: buildsImage, "SALLYPORT_TEST_IMAGE is not set, or root does not run the tests"))
  func `the image builds, and 5 MB go through it as the compose file runs it`() async throws {
    let result = try await Scene.ofTest().run("\(checkout)/Tests/image", [], within: .seconds(900))
    #expect(result.status == 0, "\(result.everything)")
  }

  /// All of Tests/package: the Debian package, and a machine with systemd on which it is installed.
  @Test(.enabled(if: bootsMachine, "SALLYPORT_TEST_PACKAGE is not set, or root does not run the tests"))
  func `the package installs, serves, is upgraded and leaves, under systemd and by the commands of README`()
    async throws
  {
    let result = try await Scene.ofTest().run("\(checkout)/Tests/package", [], within: .seconds(600))
    #expect(result.status == 0, "\(result.everything)")
  }

  private static let buildsImage = isAsked("SALLYPORT_TEST_IMAGE")
  private static let bootsMachine = isAsked("SALLYPORT_TEST_PACKAGE")

  private static func isAsked(_ variable: String) -> Bool {
    let environment = ProcessInfo.processInfo.environment
    return environment[variable] != nil && environment["SALLYPORT_SANITIZER"] == nil && geteuid() == 0
  }

  @Test func `the compose file mounts nothing inside what is read-only, and has a place for bodies`() async throws {
    let scene = try Scene.ofTest()
    let lines = try file("deploy/compose.yaml").split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
      .filter { !$0.hasPrefix("#") }
    let mounts = lines.filter { $0.hasPrefix("- ./") }.map { $0.dropFirst(2).split(separator: ":").map(String.init) }
    #expect(!mounts.isEmpty)
    for mount in mounts {
      let (source, target) = (mount[0].dropFirst(2), mount[1])
      #expect(access("\(checkout)/deploy/\(source)", R_OK) == 0, "\(source) is not in deploy/")
      #expect(
        !mounts.contains { target.hasPrefix($0[1] + "/") && $0.last == "ro" }, "\(target) is inside another mount")
    }
    #expect(lines.contains("read_only: true") && lines.contains { $0.hasPrefix("- /tmp:") && $0.contains("mode=1777") })

    // Its configuration is sound, and asks for the files that the head makes.
    for arguments in [
      ["ca", "init", "compose-ca"], ["ca", "issue", "compose-ca", "--server", "localhost", "--out", "compose"],
      ["ca", "issue", "compose-ca", "--client", "alice"],
    ] {
      if arguments.contains("--out") { try scene.makeFolder("compose") }
      #expect(try lines.isEmpty || file("deploy/compose.yaml").contains("make " + arguments.joined(separator: " ")))
      let made = try await scene.run(Sallyport.binary(), arguments)
      #expect(made.status == 0, "\(made.everything)")
    }
    for name in ["ca.crt", "crl.pem"] { try scene.write("compose/\(name)", scene.bytes("compose-ca/\(name)")) }
    let check = try await scene.check(file("deploy/compose/sallyport.conf"), name: "compose/sallyport.conf")
    #expect(check.status == 0 && !check.text.contains("warning:"), "\(check.text)")
  }
}
