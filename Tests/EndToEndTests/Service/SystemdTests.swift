import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Under systemd` {
  private func plain(_ port: UInt16, _ word: String = "x") -> String {
    configuration("server { listen 127.0.0.1:\(port); return 200 \(word); }")
  }

  private static func monotonicMicroseconds() -> UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1000
  }

  @Test func `systemd hears of the start, of reloads and of the end`() async throws {
    let scene = try Scene.ofTest()
    let systemd = try NotifySocket(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, plain(port), environment: systemd.environment)
    let ready = try await systemd.heard("READY=1")
    #expect(ready.contains { $0.hasPrefix("STATUS=Serving") && $0.contains("127.0.0.1:\(port)") })
    #expect(systemd.datagrams.count == 1)

    var heard = systemd.datagrams.count
    let began = Self.monotonicMicroseconds()
    try daemon.rewrite(plain(port, "y"))
    daemon.signal(SIGHUP)
    let reloading = try await systemd.heard("RELOADING=1", after: heard)
    let told = reloading.first { $0.hasPrefix("MONOTONIC_USEC=") }.flatMap { UInt64($0.dropFirst(15)) } ?? 0
    #expect(told >= began && told <= Self.monotonicMicroseconds())
    #expect(try await systemd.heard("READY=1", after: heard).contains { $0.hasPrefix("STATUS=Serving: generation 2") })
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "y")

    heard = systemd.datagrams.count
    try daemon.rewrite(plain(port) + "nonsense;")
    daemon.signal(SIGHUP)
    try await systemd.heard("RELOADING=1", after: heard)
    let refused = try await systemd.heard("READY=1", after: heard)
    #expect(refused.contains { $0.hasPrefix("STATUS=Reload refused") && $0.contains("nonsense") })

    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    try await systemd.heard("STOPPING=1")
  }

  @Test func `a start that fails is never called ready`() async throws {
    let scene = try Scene.ofTest()
    let systemd = try NotifySocket(scene)
    let taken = try ScriptedUpstream.echo(scene)
    let daemon = try Sallyport(scene, plain(taken.port), environment: systemd.environment)
    // Another start may find the address free.
    #expect(try await daemon.process.ended() == .exited(1))
    let told = systemd.datagrams
    #expect(told.count == 1 && told.first?.hasPrefix("STATUS=Start refused, 1 error: ") ?? false, "\(told)")
    #expect(told.first?.contains("Address already in use") ?? false, "\(told)")
  }

  @Test func `the watchdog is fed as often as it asks`() async throws {
    let scene = try Scene.ofTest()
    let systemd = try NotifySocket(scene)
    _ = try await Sallyport.start(
      scene, plain(scene.port()), environment: systemd.environment.merging(["WATCHDOG_USEC": "100000"]) { $1 })
    try await until("three feedings") { systemd.datagrams.count { $0 == "WATCHDOG=1" } >= 3 }
  }

  @Test func `a socket of systemd's is served by its name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try Sallyport(
      scene, configuration("server { listen systemd:https ssl; server_name localhost; \(Cast.tls) return 200 hello; }"),
      launcher: ["systemd-socket-activate", "--fdname=https", "-l", "127.0.0.1:\(port)"])
    // The first connection starts the daemon, and is served by it.
    try await until("systemd-socket-activate to listen") { (try? Wire.dial(port: port)) != nil }
    try await daemon.untilReady()
    for _ in 0..<3 {
      let answer = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"])
      #expect(answer.status == 200 && answer.text == "hello", "\(answer.errors)")
    }
    try await daemon.logged("serves: generation 1, 2 workers, on systemd:https")
    // A reload keeps what it was handed.
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 200)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `a socket name that systemd did not hand over is refused`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try Sallyport(
      scene, configuration("server { listen systemd:wrong; return 200 x; }"),
      launcher: ["systemd-socket-activate", "--fdname=right", "-l", "127.0.0.1:\(port)"])
    try await until("systemd-socket-activate to listen") { (try? Wire.dial(port: port)) != nil }
    #expect(try await daemon.process.ended() == .exited(78))
    #expect(daemon.errors.contains("wrong") && daemon.errors.contains("right"), "\(daemon.errors)")
  }

  /// ExecStopPost= of the unit waits then. Otherwise systemd would give the socket unit up after 20 starts in two seconds.
  @Test
  func `a refused start with a client at its socket unit asks for a pause, and one without does not`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let environment = ["RUNTIME_DIRECTORY": try scene.makeFolder("run")]
    let alone = try Sallyport(scene, plain(port) + "nonsense;", environment: environment)
    #expect(try await alone.process.ended() == .exited(78))
    #expect(access(scene.path("run/pause"), F_OK) != 0)
    let daemon = try Sallyport(
      scene, configuration("server { listen systemd:https; return 200 x; } nonsense;"),
      launcher: [
        "systemd-socket-activate", "--setenv=RUNTIME_DIRECTORY", "--fdname=https", "-l", "127.0.0.1:\(port)",
      ], environment: environment)
    let client = try await waiting(for: "systemd-socket-activate to listen") { try? Wire.dial(port: port) }
    #expect(try await daemon.process.ended() == .exited(78))
    #expect(access(scene.path("run/pause"), F_OK) == 0)
    withExtendedLifetime(client) {}
    let unit = try String(contentsOfFile: "\(checkout)/deploy/sallyport.service", encoding: .utf8)
    #expect(unit.contains("\nExecStopPost=/bin/sh -c 'if rm %t/sallyport/pause "))
    #expect(unit.contains("\nRuntimeDirectory=sallyport\n"))
    // The files of unix sockets that systemd's store keeps.
    #expect(unit.contains("\nRuntimeDirectoryPreserve=yes\n"))
  }

  @Test func `credentials come from systemd's folder`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    try scene.makeFolder("credentials")
    for name in ["server.key", "ca.pem"] {
      try scene.write("credentials/\(name)", scene.bytes(name))
      unlink(scene.path(name))
    }
    // curl needs the CA still.
    try scene.anchors("curl-ca", cast.authority)
    let text = configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate server.pem; ssl_certificate_key credential:server.key;
        ssl_client_certificate credential:ca.pem; ssl_verify_client on; return 200 $ssl_client_s_dn_cn; }
      """)
    _ = try await Sallyport.start(
      scene, text, environment: ["CREDENTIALS_DIRECTORY": scene.path("credentials")])
    let answer = try await scene.curl(
      ["--cacert", scene.path("curl-ca.pem"), "--connect-to", "::127.0.0.1:\(port)"] + cast.alice.curl
        + ["https://localhost/"])
    #expect(answer.text == "alice", "\(answer.errors)")
    // Without the folder, and with a name that leaves it, it is an error that says what was looked for.
    let without = try await scene.sallyport("check", "--config", scene.path("sallyport.conf"))
    #expect(without.status == 1 && without.text.contains("CREDENTIALS_DIRECTORY"), "\(without.text)")
    let outside = try scene.write(
      "outside.conf", text: text.replacing("credential:server.key", with: "credential:../server.pem"))
    let escaped = try await scene.sallyport(
      "check", "--config", outside, environment: ["CREDENTIALS_DIRECTORY": scene.path("credentials")])
    #expect(escaped.status == 1)
  }

  /// All of Tests/systemd: the unit in a booted Debian.
  @Test(
    .enabled(if: bootsSystem, "SALLYPORT_TEST_SYSTEMD is not set, or root does not run the tests"), .lastsMinutes)
  func `the unit starts, reloads, restarts and refuses under a real systemd`() async throws {
    let result = try await Scene.ofTest().run("\(checkout)/Tests/systemd", [], within: .seconds(900))
    #expect(result.status == 0, "\(result.everything)")
  }

  private static let bootsSystem: Bool = {
    guard getenv("SALLYPORT_TEST_SYSTEMD") != nil, getenv("SALLYPORT_SANITIZER") == nil else { return false }
    return geteuid() == 0
  }()

  @Test func `reload waits for the result, and fails if the configuration was refused`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let environment = ["RUNTIME_DIRECTORY": try scene.makeFolder("run")]
    let daemon = try await Sallyport.start(scene, plain(port), environment: environment)
    let process = "\(daemon.process.identifier)"
    try await until("the results") { scene.text("run/reload").hasPrefix("0 done") }
    try daemon.rewrite(plain(port, "y"))
    let good = try await scene.sallyport("reload", process, environment: environment)
    #expect(good.status == 0 && good.text.contains("generation 2"), "\(good.everything)")
    try daemon.rewrite(plain(port) + "nonsense;")
    let bad = try await scene.sallyport("reload", process, environment: environment)
    #expect(bad.status == 1 && bad.everything.contains("nonsense"), "\(bad.everything)")
    #expect(bad.everything.contains("generation 2 serves on"), "\(bad.everything)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "y")
    let lost = try await scene.sallyport("reload", process, environment: ["RUNTIME_DIRECTORY": scene.path("none")])
    #expect(lost.status == 1 && lost.everything.contains("does not serve yet"), "\(lost.everything)")
  }

  @Test func `the threads of workers have names`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, plain(port))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "x")
    let folder = "/proc/\(daemon.process.identifier)/task"
    try await until("a thread named sp-worker-…") {
      try FileManager.default.contentsOfDirectory(atPath: folder).contains { thread in
        (try? String(contentsOfFile: "\(folder)/\(thread)/comm", encoding: .utf8))?.hasPrefix("sp-worker-") ?? false
      }
    }
  }
}
