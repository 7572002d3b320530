import Foundation
import Glibc
import TestSupport
import Testing

/// What people paste: the first configuration, the head of the unit, the compose file. Each is run from the file itself.
@Suite(.staged) struct `What is there to be pasted` {
  private func file(_ name: String) throws -> String {
    try String(contentsOfFile: "\(checkout)/\(name)", encoding: .utf8)
  }

  @Test func `the first configuration of the documents runs as pasted, from an empty folder to 200`() async throws {
    let scene = try Scene.ofTest()
    let section = try #require(
      file("docs/operating/first-steps.md").split(separator: "\n## ").first { $0.hasPrefix("A first configuration") })
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
    #expect(script.count == 4)
    try await scene.succeed(
      "sh", "-ec", "cd \(checkout)\n" + script.joined(separator: "\n"), environment: ["SALLYPORT": Sallyport.binary()])
    for name in [
      "usr/local/bin/sallyport", "etc/sysusers.d/sallyport.conf", "etc/systemd/system/sallyport.service",
      "etc/systemd/system/sallyport.service.d/low-ports.conf",
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

  /// `Type=notify-reload` has no message for a refusal: `systemctl reload` would succeed. And a stop must not end in SIGKILL.
  @Test func `the unit's reload waits for the result, and its stop ends before systemd's patience`() throws {
    let lines = try file("deploy/sallyport.service").split(separator: "\n").map(String.init)
    #expect(lines.filter { $0.hasPrefix("Type=") } == ["Type=notify"])
    #expect(lines.filter { $0.hasPrefix("ExecReload=") } == ["ExecReload=/usr/local/bin/sallyport reload $MAINPID"])
    func seconds(_ name: String) -> Int? {
      lines.first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.utf8.count)) }
    }
    let patience = try #require(seconds("TimeoutStopSec="))
    #expect(try #require(seconds("Environment=STOP_SECONDS=")) + 5 <= patience)
    #expect(try file("deploy/sallyport.socket").contains("\nWantedBy=sockets.target sallyport.service\n"))
  }

  /// An open WebSocket would make an outage of a restart.
  @Test func `an upgrade replaces the process, and restarts it only where the unit has changed`() throws {
    let (before, after) = try (file("deploy/debian/preinst"), file("deploy/debian/postinst"))
    func function(_ text: String) throws -> Substring {
      let start = try #require(text.range(of: "unit_settings() {"))
      return text[start.lowerBound..<(try #require(text[start.upperBound...].range(of: "\n}\n")).upperBound)]
    }
    #expect(try function(before) == function(after))
    #expect(after.contains("sallyport reload --restart --config /etc/sallyport/sallyport.conf"))
    #expect(before.contains("unit_settings >/run/sallyport-unit") && after.contains("$(cat /run/sallyport-unit)"))
  }

  /// The script's own words, with a `systemctl` that prints a unit.
  @Test func `only what systemd applies at a start counts as a change of the unit`() async throws {
    let scene = try Scene.ofTest()
    let text = try file("deploy/debian/postinst")
    let start = try #require(text.range(of: "unit_settings() {"))
    let function = text[start.lowerBound..<(try #require(text[start.upperBound...].range(of: "\n}\n")).upperBound)]
    try scene.makeFolder("bin")
    try scene.write("bin/systemctl", text: "#!/bin/sh\n[ \"$*\" = \"cat sallyport.service\" ] && cat \"$UNIT\"\n")
    chmod(scene.path("bin/systemctl"), 0o755)
    func settings(_ unit: String) async throws -> String {
      let path = try scene.write("unit", text: unit)
      return try await scene.succeed(
        "sh", "-ec", "\(function)\nunit_settings",
        environment: ["UNIT": path, "PATH": "\(scene.path("bin")):/usr/bin:/bin"])
    }
    let unit =
      "# /usr/lib/x.service\n[Unit]\nDescription=a\n\n[Service]\nType=notify\nExecStart=/x\n[Install]\nWantedBy=y\n"
    let former = try await settings(unit)
    #expect(former.contains("ExecStart=/x") && !former.contains("Description"))
    for same in [
      unit.replacing("Description=a", with: "Description=b"), unit.replacing("Type=notify", with: "Type=notify-reload"),
      unit.replacing("ExecStart", with: "# why\nExecStart"),
      unit.replacing("ExecStart", with: "ExecReload=/z\nExecStart"),
    ] { #expect(try await settings(same) == former, "\(same)") }
    for other in [unit.replacing("/x\n", with: "/x y\n"), unit + "# /etc/d.conf\n[Service]\nUser=z\n"] {
      #expect(try await settings(other) != former, "\(other)")
    }
  }

  /// A list that is kept twice has a fault in one of them: the package could not be built on a bare system.
  @Test func `the libraries of the build and of the binary are listed in one place`() async throws {
    let scene = try Scene.ofTest()
    func printed(_ option: String) async throws -> Set<String> {
      let result = try await scene.run("\(checkout)/deploy/install-missing", ["--print", option])
      #expect(result.status == 0, "\(result.everything)")
      return Set(result.text.split(separator: "\n").map(String.init))
    }
    let (build, runtime) = (try await printed("--toolchain"), try await printed("--runtime"))
    let manifest = try file("Package.swift").matches(of: /\.apt\(\["([a-z0-9.-]+)"\]\)/).map { String($0.output.1) }
    #expect(manifest.count == 9 && Set(manifest).isSubset(of: build), "\(Set(manifest).subtracting(build))")
    for name in [
      "deploy/quickstart", "deploy/package", "deploy/Dockerfile", "Tests/run", "Tests/package", "Tests/systemd",
      "Tests/Bench/stage.py",
    ] {
      let words = Set(try file(name).split { !"abcdefghijklmnopqrstuvwxyz0123456789+-.".contains($0) }.map(String.init))
      #expect(!words.isEmpty)
      // For the bench's own C, and for the other name that a later Debian has.
      let other = words.intersection(Set(manifest).union(runtime))
        .subtracting(["libssl-dev", "libc-ares2", "libcares2"])
      #expect(other.isEmpty, "\(name): \(other)")
    }
    let manual = try file("docs/operating/install.md")
    for name in Set(manifest).union(runtime) { #expect(manual.contains(name), "install.md: \(name)") }
  }

  /// A list that nobody renews refuses every client after 30 days.
  @Test func `the timer's command keeps up the authority that README makes, and the package enables it`() async throws {
    let scene = try Scene.ofTest()
    let unit = try file("deploy/sallyport-ca.service")
    func value(_ name: String) throws -> String {
      let lines = unit.split(separator: "\n").filter { $0.hasPrefix("\(name)=") }
      return String(try #require(lines.count == 1 ? lines.first : nil, "\(name)").dropFirst(name.count + 1))
    }
    let page = try file("README.md")
    for command in [
      "ca init /etc/sallyport/ca", "ca issue /etc/sallyport/ca --server localhost --out /etc/sallyport/tls",
    ] {
      #expect(page.contains("    sudo sallyport \(command)\n"), "\(command)")
      if command.contains("--out") { try scene.makeFolder("tls") }
      let made = try await scene.run(
        Sallyport.binary(),
        command.replacing("/etc/sallyport", with: scene.folder).split(separator: " ").map(String.init))
      #expect(made.status == 0, "\(made.everything)")
    }
    let condition = try value("ConditionPathExists").replacing("/etc/sallyport", with: scene.folder)
    #expect(access(condition, R_OK) == 0, "\(condition)")
    let words = try value("ExecStart").replacing("/etc/sallyport", with: scene.folder).split(separator: " ").map(
      String.init)
    #expect(words.first == "/usr/local/bin/sallyport")
    let kept = try await scene.run(Sallyport.binary(), Array(words.dropFirst()))
    #expect(kept.status == 0 && kept.errors == "", "\(kept.everything)")
    let writable = try value("ReadWritePaths").split(separator: " ").map { $0.drop { $0 == "-" } }
    #expect(writable == ["/etc/sallyport/ca", "/etc/sallyport/tls"])
    let timer = try file("deploy/sallyport-ca.timer")
    #expect(timer.contains("\nOnCalendar=*-*-* 00/6:00:00\n") && timer.contains("\nPersistent=yes\n"))
    #expect(timer.contains("\nWantedBy=timers.target\n"))
    for script in ["postinst", "prerm", "postrm"] {
      #expect(try file("deploy/debian/\(script)").contains("sallyport-ca.timer"), "\(script)")
    }
  }

  /// As dpkg-query of Debian 13 answers for the loader, which libc6 diverts.
  @Test(arguments: [
    "diversion by libc6 from: /lib64/ld.so\ndiversion by libc6 to: /lib64/ld.so.usr\nlibc6:amd64: /lib64/ld.so",
    "local diversion from: /lib64/ld.so\nlibc6:amd64, other: /lib64/ld.so", "libc6: /lib64/ld.so",
  ])
  func `the image notes a diverted file's package, and no package called "diversion by"`(answer: String) async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("bin")
    try scene.makeFolder("image/var/lib/dpkg/status.d")
    try scene.write("answer", text: answer + "\n")
    let query = try scene.write(
      "bin/dpkg-query",
      text: "#!/bin/sh\nif [ \"$1\" = -S ]; then cat '\(scene.path("answer"))'; else echo \"$2\"; fi\n")
    chmod(query, 0o755)
    let script = """
      set -eu; folder=$1 PATH="$2:$PATH"; cp() { :; }
      eval "$(sed -n '/^note() {/,/^}/p' '\(checkout)/deploy/image-files')"
      note /lib64/ld.so
      """
    try await scene.succeed("sh", "-c", script, "sh", scene.path("image"), scene.path("bin"))
    let noted = try FileManager.default.contentsOfDirectory(atPath: scene.path("image/var/lib/dpkg/status.d"))
    #expect(noted == ["libc6"])
  }

  @Test(.enabled(if: access("/usr/bin/dpkg-shlibdeps", X_OK) == 0, "dpkg-dev is not installed"))
  func `the package has what an incident needs, and the links of its documents lead to its files`() async throws {
    let scene = try Scene.ofTest()
    let made = try await scene.run(
      "\(checkout)/deploy/package", ["--binary", Sallyport.binary(), "--out", scene.folder, "--needs-swift"],
      environment: ["DPKG_DEB_COMPRESSOR_TYPE": "none", "DEBEMAIL": "test@debian.org"], within: .seconds(200))
    #expect(made.status == 0, "\(made.everything)")
    let package = try #require(made.text.split(separator: "\n").last.map(String.init))
    try await scene.succeed("dpkg-deb", "-x", package, scene.path("root"))
    let documents = scene.path("root/usr/share/doc/sallyport")
    for name in [
      "README.md", "docs/OPERATING.md", "docs/INCIDENTS.md", "deploy/alerts/sallyport.rules.yml",
      "deploy/grafana/sallyport.json", "examples/full.conf",
    ] { #expect(access("\(documents)/\(name)", R_OK) == 0, "\(name)") }
    for name in ["low-ports.conf", "refuse-restart.conf"] {
      #expect(access(scene.path("root/usr/share/sallyport/\(name)"), R_OK) == 0, "\(name)")
    }
    // A file below /etc that is no conffile would be overwritten by each upgrade.
    #expect(scene.text("root/etc/logrotate.d/sallyport").contains("/var/log/sallyport/*.log {"))
    try await scene.succeed("dpkg-deb", "-e", package, scene.path("control"))
    #expect(scene.text("control/conffiles") == "/etc/sallyport/sallyport.conf\n/etc/logrotate.d/sallyport\n")
    let packaged = scene.text("root/etc/sallyport/sallyport.conf")
    for line in ["user sallyport;", "error_log journal notice;", "  access_log journal combined;"] {
      #expect(packaged.contains("\n\(line)"), "\(line)")
    }

    var count = 0
    let pages = FileManager.default.enumerator(atPath: documents)?.compactMap { $0 as? String } ?? []
    for page in pages where page.hasSuffix(".md") {
      let text = try String(contentsOfFile: "\(documents)/\(page)", encoding: .utf8)
      let folder = URL(fileURLWithPath: "\(documents)/\(page)").deletingLastPathComponent()
      for link in text.matches(of: /\]\(([^)\s]+)\)/).map(\.output.1) where !link.contains("://") {
        count += 1
        let parts = link.split(separator: "#", omittingEmptySubsequences: false).map(String.init)
        let target = parts[0].isEmpty ? "\(documents)/\(page)" : folder.appendingPathComponent(parts[0]).path
        // The licence is base-files': a link to /usr/share/common-licenses.
        #expect(access(target, R_OK) == 0 || parts[0] == "LICENSE", "\(page): \(link)")
        guard parts.count > 1, let aim = try? String(contentsOfFile: target, encoding: .utf8) else { continue }
        #expect(Self.anchors(aim).contains(parts[1]), "\(page): \(link)")
      }
    }
    #expect(count > 100, "\(count)")
  }

  /// The names that a browser of Markdown gives the headings.
  private static func anchors(_ page: String) -> Set<String> {
    Set(
      page.split(separator: "\n").filter { $0.hasPrefix("#") }.map { line in
        line.drop { $0 == "#" }.drop { $0 == " " }.lowercased().filter {
          $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_"
        }.replacing(" ", with: "-")
      })
  }

  /// All of Tests/image: deploy/Dockerfile built, and its binary run as deploy/compose.yaml has it.
  @Test(
    .enabled(if: buildsImage, "SALLYPORT_TEST_IMAGE is not set, or root does not run the tests"), .lastsMinutes)
  func `the image builds, and 5 MB go through it as the compose file runs it`() async throws {
    let result = try await Scene.ofTest().run("\(checkout)/Tests/image", [], within: .seconds(900))
    #expect(result.status == 0, "\(result.everything)")
  }

  /// The words of HEALTHCHECK's CMD in deploy/Dockerfile, with this binary.
  private func healthCheck() throws -> [String] {
    let line = try #require(
      file("deploy/Dockerfile").split(separator: "\n").first { $0.hasPrefix("HEALTHCHECK ") && $0.contains(" CMD [") })
    let start = try #require(line.range(of: "CMD "))
    let words = try JSONDecoder().decode([String].self, from: Data(line[start.upperBound...].utf8))
    #expect(words.first == "sallyport")
    return [try Sallyport.binary()] + words.dropFirst()
  }

  @Test(arguments: [false, true])
  func `the image's HEALTHCHECK finds a process that only variables configure, and tells when it is gone`(
    hasFile: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let cast = try Cast(scene)
    let port = try scene.port()
    // A file that nobody runs, such as one that the image's user has mounted for later.
    if hasFile { try scene.write("sallyport.conf", text: "events {} http {}") }
    let variables = [
      "SALLYPORT_LISTEN=127.0.0.1:\(port)", "SALLYPORT_CERT=server.pem", "SALLYPORT_KEY=server.key",
      "SALLYPORT_CLIENT_CA=ca.pem", "SALLYPORT_TO=http://127.0.0.1:9", "SALLYPORT_USER=root",
    ]
    let clean = ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("SALLYPORT_") }.sorted().flatMap {
      ["-u", $0]
    }
    let process = try ChildProcess(
      "env", clean + variables + [Sallyport.binary(), "proxy"], in: scene.folder, output: nil,
      errors: scene.path("proxy.err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "proxy.err") { scene.text("proxy.err") }
    try await until("it serves") { try await scene.curl(cast.to(port) + ["https://localhost/"]).status == 400 }
    let check = clean + variables + (try healthCheck())
    let good = try await scene.run("env", check)
    #expect(good.status == 0 && good.text.contains("process: \(process.identifier)"), "\(good.everything)")
    process.stop()
    #expect(try await scene.run("env", check).status == 1)
  }

  @Test func `the image's HEALTHCHECK finds the process of the configuration file, with and without variables`()
    async throws
  {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    for variables in [[], ["SALLYPORT_LISTEN=127.0.0.1:9"]] {
      let result = try await scene.run("env", variables + (try healthCheck()))
      #expect(result.status == 0, "\(result.everything)")
    }
  }

  /// All of Tests/package: the Debian package, and a machine with systemd on which it is installed: of the release that
  /// runs the tests, and of the next one. They wait for each other.
  @Test(
    .enabled(if: bootsMachine, "SALLYPORT_TEST_PACKAGE is not set, or root does not run the tests"), .lastsMinutes,
    arguments: [[], ["--release", "trixie"]])
  func `the package installs, serves, is upgraded and leaves, under systemd and by the commands of README`(
    release: [String]
  ) async throws {
    let result = try await Scene.ofTest().run("\(checkout)/Tests/package", release, within: .seconds(900))
    #expect(result.status == 0, "\(result.everything)")
  }

  /// Without the image, which takes minutes: see the next test.
  @Test(.enabled(if: access("/usr/bin/dpkg-shlibdeps", X_OK) == 0, "dpkg-dev is not installed"))
  func `a release is the same twice, each of its files starts, and one that has changed is refused`() async throws {
    let scene = try Scene.ofTest()
    let resolved = try scene.write(
      "Package.resolved",
      text: #"""
        {"pins": [{"identity": "swift-log", "kind": "remoteSourceControl", "location": "https://example.com/apple/swift-log.git",
          "state": {"revision": "c2cb", "version": "1.16.2"}}], "version": 3}
        """#)
    let environment = [
      "DPKG_DEB_COMPRESSOR_TYPE": "none", "DEBEMAIL": "test@debian.org", "SOURCE_DATE_EPOCH": "1700000000",
    ]
    for folder in ["one", "two"] {
      let made = try await scene.run(
        "\(checkout)/deploy/release",
        [
          "--binary", Sallyport.binary(), "--out", scene.path(folder), "--without-image", "--needs-swift",
          "--resolved", resolved,
        ], environment: environment, within: .seconds(300))
      #expect(made.status == 0, "\(made.everything)")
    }
    #expect(!scene.text("one/SHA256SUMS").isEmpty && scene.text("one/SHA256SUMS") == scene.text("two/SHA256SUMS"))
    let contents = try FileManager.default.contentsOfDirectory(atPath: scene.path("one")).sorted()
    #expect(contents.count == 5, "\(contents)")
    let bill = try #require(contents.first { $0.hasSuffix(".spdx.json") })
    #expect(scene.text("one/\(bill)").contains("pkg:swift/example.com/apple/swift-log@1.16.2"))
    #expect(scene.text("one/RELEASE-NOTES.md").contains("- **Configuration.** nginx's language"))
    let verify = ["--verify", scene.path("one")]
    let verified = try await scene.run("\(checkout)/deploy/release", verify, within: .seconds(100))
    #expect(verified.status == 0, "\(verified.everything)")
    try scene.write("one/\(bill)", text: scene.text("one/\(bill)") + " ")
    let changed = try await scene.run("\(checkout)/deploy/release", verify)
    #expect(
      changed.status == 1 && changed.everything.contains("\(bill) is not what SHA256SUMS says"), "\(changed.everything)"
    )
  }

  @Test(
    .enabled(if: makesRelease, "SALLYPORT_TEST_RELEASE is not set, or root does not run the tests"), .lastsMinutes)
  func `a release has an image that starts, with a list of what is in it`() async throws {
    let scene = try Scene.ofTest()
    for words in [
      ["--binary", try Sallyport.binary(), "--out", scene.path("made")], ["--verify", scene.path("made")],
    ] {
      let result = try await scene.run("\(checkout)/deploy/release", words, within: .seconds(900))
      #expect(result.status == 0, "\(result.everything)")
      if words[0] == "--verify" { #expect(result.everything.contains("the image: sallyport"), "\(result.everything)") }
    }
  }

  /// With a `swift` that says what a compiler says.
  @Test func `the quickstart tells how long it takes, hides warnings, and shows the errors of a build that fails`()
    async throws
  {
    let scene = try Scene.ofTest()
    for folder in ["bin", "deploy"] { try scene.makeFolder(folder) }
    let script = try scene.write("deploy/quickstart", text: file("deploy/quickstart"))
    let swift = try scene.write(
      "bin/swift",
      text: """
        #!/bin/sh
        case "$*" in *--show-bin-path) echo "\(scene.folder)/.build/release"; exit ;; esac
        printf '[1/2] Compiling a\\na.swift:1:1: warning: nobody reads this\\n'
        if [ -n "$FAILS" ]; then echo "a.swift:1:1: error: no such thing"; exit 1; fi
        mkdir -p .build/release
        printf '#!/bin/sh\\necho "the $*"\\n' >.build/release/sallyport
        chmod 755 .build/release/sallyport
        """)
    let install = try scene.write("deploy/install-missing", text: "#!/bin/sh\n")
    for path in [script, swift, install] { chmod(path, 0o755) }
    let path = "\(scene.path("bin")):/usr/bin:/bin"
    let built = try await scene.run(script, ["--port", "1"], environment: ["PATH": path])
    #expect(built.status == 0 && built.text.hasSuffix("the demo --port 1\n"), "\(built.everything)")
    #expect(built.text.contains("10 minutes") && !built.everything.contains("warning:"), "\(built.everything)")
    let failed = try await scene.run(script, [], environment: ["PATH": path, "FAILS": "1"])
    #expect(failed.status == 1 && failed.everything.contains("error: no such thing"), "\(failed.everything)")
    #expect(!failed.everything.contains("the demo"))
  }

  private static let buildsImage = isAsked("SALLYPORT_TEST_IMAGE")
  private static let bootsMachine = isAsked("SALLYPORT_TEST_PACKAGE")
  private static let makesRelease = isAsked("SALLYPORT_TEST_RELEASE")

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
      // The head of the file makes the folder of the CA.
      let isMade = source == "compose-ca"
      #expect(isMade || access("\(checkout)/deploy/\(source)", R_OK) == 0, "\(source) is not in deploy/")
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
    try scene.write("compose/ca.crt", scene.bytes("compose-ca/ca.crt"))
    // What keeps the list from its end: once here, and for ever there.
    for (path, begin) in [("compose.yaml", "command: ["), ("kubernetes/client-ca.yaml", "args: [")] {
      let all = try file("deploy/\(path)").split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
      let line = try #require(all.first { $0.hasPrefix("\(begin)ca, upkeep, ") }, "\(path)")
      let words = line.dropFirst(begin.utf8.count).dropLast().split(separator: ", ").map(String.init)
      let once = words.firstIndex(of: "--every").map { Array(words[..<$0]) } ?? words
      let here = once.map {
        $0.replacing("/tls", with: "compose").replacing("/list", with: "compose").replacing("/ca", with: "compose-ca")
      }
      unlink(scene.path("compose/crl.pem"))
      let kept = try await scene.run(Sallyport.binary(), here)
      #expect(
        kept.status == 0 && scene.text("compose/crl.pem") == scene.text("compose-ca/crl.pem"), "\(kept.everything)")
    }
    let check = try scene.check(file("deploy/compose/sallyport.conf"), name: "compose/sallyport.conf")
    #expect(check.isValid && !check.contains("warning:"), "\(check)")
  }
}
