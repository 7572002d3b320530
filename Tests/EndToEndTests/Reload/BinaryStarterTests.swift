import Foundation
import Glibc
import TestSupport
import Testing

/// The process that starts the next binary for a sandboxed one (`BinaryStarter`).
@Suite(.staged) struct `The process that waits for USR2` {
  /// The processes whose command line has this word.
  private func processes(of word: String) -> Set<Int32> {
    let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return Set(
      all.compactMap { Int32($0) }.filter { process in
        (try? String(contentsOfFile: "/proc/\(process)/cmdline", encoding: .utf8))?.split(separator: "\0")
          .contains { $0 == word } ?? false
      })
  }

  /// Those that wait for USR2: not the opener of root's files.
  private func starters(of path: String, besides serving: Set<Int32>) -> [Int32] {
    processes(of: path).subtracting(serving).filter { process in
      (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8)) != "sallyport-open\n"
    }
  }

  @Test(.enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no sandbox"))
  func `a replacement that comes too late does not serve beside the process that gave it up`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 one; } }"))
    let main = daemon.process.identifier, path = scene.path("sallyport.conf")
    let starter = try #require(processes(of: path).subtracting([main]).first)
    kill(starter, SIGSTOP)
    daemon.signal(SIGUSR2)
    try await daemon.logged("the new binary did not start, this process serves on")
    kill(starter, SIGCONT)
    // The next one takes over from the only process that serves.
    daemon.signal(SIGUSR2)
    let fresh = try await waiting(for: "the pid file of the new process") {
      let written = pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines))
      return written == main ? nil : written
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    #expect(try await daemon.process.ended() == .exited(0))
    try await until("the former starter to end") { !processes(of: path).contains(starter) }
    let left = processes(of: path)
    #expect(left.count == 2 && left.contains(fresh), "\(left)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    kill(fresh, SIGQUIT)
    try await until("the new one to end") { processes(of: path).isEmpty }
  }

  @Test(.enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no sandbox"))
  func `its end is told, leaves no zombie, and USR2 then says what to do`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); location / { return 200 one; } location = /metrics { metrics; }
        location = /status { status; } }
      """)
    let main = daemon.process.identifier, path = scene.path("sallyport.conf")
    let starter = try #require(processes(of: path).subtracting([main]).first)
    kill(starter, SIGKILL)
    try await daemon.logged("[alert]", "the process that starts a new binary (USR2) has ended")
    #expect(kill(starter, 0) != 0, "a zombie is left")
    let health = try await scene.sallyport("health", "--config", path)
    #expect(health.status == 3, "\(health.everything)")
    #expect(health.text.contains("WARN    process: the process that starts a new binary"), "\(health.text)")
    let page = try PrometheusPage(try await scene.page(port, "/metrics").text)
    #expect(page.value("sallyport_ongoing_faults", ["kind": "helper"]) == 1)
    let status = try await scene.curl(["http://127.0.0.1:\(port)/status"]).text
    #expect(status.contains("The process that starts a new binary"), "\(status)")
    daemon.signal(SIGUSR2)
    try await daemon.logged("the new binary did not start", "has ended or hangs: restart instead")
    #expect(!daemon.errorLog.contains("Broken pipe"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
  }

  @Test func `a start without standard input leaves no process behind`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try Sallyport(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 one; } }"),
      launcher: ["bash", "-c", "exec \"$@\" <&- >&- 2>&-", "bash"], userAsWritten: true)
    try await daemon.untilReady()
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended()
    try await until("no process to be left") { processes(of: scene.path("sallyport.conf")).isEmpty }
  }

  @Test(.enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no sandbox"))
  func `it has ended when the process that serves ends`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 one; } }"))
    let starter = try #require(
      processes(of: scene.path("sallyport.conf")).subtracting([daemon.process.identifier]).first)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(kill(starter, 0) != 0)
  }

  /// The process that waits as root for years, and what it starts.
  @Test(
    .enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no sandbox"),
    .enabled(if: geteuid() == 0, "only root has something to give up"))
  func `of root's rights it keeps those of a start, which serve the replacement`() async throws {
    let scene = try Scene.ofTest()
    // Its folder is root's alone, and a low port is free on an address that nobody else takes.
    let (port, own) = try (scene.port(), "127.\(getpid() & 0x7F).\(getpid() >> 7 & 0xFF).9:943")
    try scene.makeFolder("secret")
    chmod(try scene.write("secret/more.conf", text: "server_tokens off;"), 0o600)
    chmod(scene.path("secret"), 0o700)
    chown(scene.path("secret"), 1, 1)
    func text(_ listen: String) -> String {
      configuration("server { listen \(listen); return 200 one; } include secret/*.conf;")
    }
    let daemon = try Sallyport(scene, text("127.0.0.1:\(port)"), userAsWritten: true)
    try await daemon.untilReady()
    let main = daemon.process.identifier, path = scene.path("sallyport.conf")
    let starter = try #require(starters(of: path, besides: [main]).first)
    let (full, kept) = try (capabilities(getpid()), capabilities(starter))
    // capabilities(7): CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE,
    // IPC_LOCK, SYS_NICE, SYS_RESOURCE.
    let start = [0, 1, 2, 3, 5, 6, 7, 8, 10, 14, 23, 24].reduce(UInt64(0)) { $0 | 1 << $1 }
    #expect(kept["CapPrm"] == full["CapPrm"].map { $0 & start } && kept["CapEff"] == kept["CapPrm"], "\(kept)")
    #expect(kept["CapAmb"] == 0 && kept["NoNewPrivs"] == 1 && kept["Uid"] == 0, "\(kept)")
    let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(starter)/fd")
    #expect(Set(open) == ["0", "1", "2", "3"], "\(open)")

    // The new process reads what only root can, binds a low port, and becomes nobody.
    try scene.write("sallyport.conf", text: text(own))
    let fresh = try await replaced(daemon, scene)
    #expect(try await scene.curl(["http://\(own)/"]).text == "one")
    let (serving, next) = try (
      capabilities(fresh), capabilities(#require(starters(of: path, besides: [main, starter, fresh]).first))
    )
    #expect(serving["CapPrm"] == 0 && serving["Uid"] != 0 && next["CapPrm"] == kept["CapPrm"], "\(serving) \(next)")
    kill(fresh, SIGQUIT)
    try await until("the new one to end") { processes(of: path).isEmpty }
  }

  /// `AmbientCapabilities=CAP_NET_BIND_SERVICE` of low-ports.conf.
  @Test(
    .enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no sandbox"),
    .enabled(if: geteuid() == 0, "only root can give a capability"))
  func `a capability that the unit gives reaches the replacement`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port(), own = "127.\(getpid() & 0x7F).\(getpid() >> 7 & 0xFF).10:943"
    let account = try #require(getpwnam("nobody")?.pointee)
    chown(scene.folder, account.pw_uid, account.pw_gid)
    func text(_ listen: String) -> String {
      "user nobody; " + configuration("server { listen \(listen); return 200 one; }")
    }
    let daemon = try Sallyport(
      scene, text("127.0.0.1:\(port)"),
      launcher: [
        "setpriv", "--reuid=\(account.pw_uid)", "--regid=\(account.pw_gid)", "--clear-groups",
        "--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service", "--bounding-set=-all,+net_bind_service",
        "--no-new-privs",
      ])
    try await daemon.untilReady()
    try daemon.rewrite(text(own))
    let fresh = try await replaced(daemon, scene)
    #expect(try await scene.curl(["http://\(own)/"]).text == "one")
    kill(fresh, SIGQUIT)
    try await until("the new one to end") { processes(of: scene.path("sallyport.conf")).isEmpty }
  }

  /// The process that takes the place of the daemon's at USR2.
  private func replaced(_ daemon: Sallyport, _ scene: Scene) async throws -> pid_t {
    daemon.signal(SIGUSR2)
    let fresh = try await waiting(for: "the pid file of the new process") {
      let written = pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines))
      return written == daemon.process.identifier ? nil : written
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    return fresh
  }

  /// Numbers of /proc/PID/status by name; sets of capabilities in hexadecimal there.
  private func capabilities(_ process: pid_t) throws -> [String: UInt64] {
    let text = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
    return Dictionary(
      text.split(separator: "\n").compactMap { line -> (String, UInt64)? in
        let words = line.split(whereSeparator: \.isWhitespace)
        guard words.count > 1, let name = words.first?.dropLast() else { return nil }
        return UInt64(words[1], radix: name.hasPrefix("Cap") ? 16 : 10).map { (String(name), $0) }
      }, uniquingKeysWith: { first, _ in first })
  }

  /// systemd's watchdog sends SIGABRT, to a process that may be stopped.
  @Test(
    .enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "a sanitizer handles faults"),
    arguments: [SIGABRT, SIGSEGV])
  func `a process ends by the signal of a fault`(signal: Int32) async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 one; } }"))
    let path = scene.path("sallyport.conf")
    daemon.signal(SIGSTOP)
    daemon.signal(signal)
    daemon.signal(SIGCONT)
    #expect(try await daemon.process.ended() == .killed(signal: signal))
    try await until("no process to be left") { processes(of: path).isEmpty }
  }
}
