import Foundation
import Glibc
import TestSupport
import Testing

/// What nginx's master can read again: root starts sallyport, `user` takes root's rights away, and a process that stays root
/// opens what the configuration of root names.
@Suite(
  .staged, .enabled(if: geteuid() == 0, "only root has something to keep"),
  .enabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, "there is no such process"))
struct `The opener of root's files` {
  private func start(_ scene: Scene, _ text: String) async throws -> Sallyport {
    let daemon = try Sallyport(scene, text.hasPrefix("user ") ? text : Self.asNobody(text), userAsWritten: true)
    try await daemon.untilReady()
    return daemon
  }

  private static func asNobody(_ text: String) -> String { "user nobody; \(text)" }

  private func openers(of main: Int32) -> [Int32] {
    let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return all.compactMap { Int32($0) }.filter { process in
      guard let text = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8) else { return false }
      return text.contains("Name:\tsallyport-open\n") && text.contains("\nPPid:\t\(main)\n")
    }
  }

  private func opener(of daemon: Sallyport) async throws -> Int32 {
    try await waiting(for: "the opener") { openers(of: daemon.process.identifier).first }
  }

  /// Writes NAME.pem and NAME.key, each at once, for root alone.
  private func issue(_ scene: Scene, _ authority: TestAuthority, _ name: String) throws {
    _ = try scene.identity(name, authority.server())
    for file in ["\(name).pem", "\(name).key"] { chmod(scene.path(file), 0o600) }
  }

  private func answer(_ scene: Scene, _ port: UInt16, trusting ca: String) async -> String? {
    try? await scene.curl([
      "--cacert", scene.path("\(ca).pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/",
    ]).text
  }

  private func server(_ port: UInt16, _ pair: (certificate: String, key: String), _ word: String = "one") -> String {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; return 200 \(word);
        ssl_certificate \(pair.certificate); ssl_certificate_key \(pair.key); }
      """)
  }

  /// Two authorities, so that a client that trusts the second one alone tells which certificate serves.
  private func authorities(_ scene: Scene) throws -> (first: TestAuthority, second: TestAuthority) {
    let both = (first: try TestAuthority("First"), second: try TestAuthority("Second"))
    try scene.anchors("first", both.first)
    try scene.anchors("second", both.second)
    return both
  }

  /// A daemon that shows a certificate of the first authority, which only root can read.
  private func served(
    _ scene: Scene, _ port: UInt16
  ) async throws -> (authorities: (first: TestAuthority, second: TestAuthority), daemon: Sallyport) {
    let authorities = try authorities(scene)
    chmod(try scene.makeFolder("keys"), 0o700)
    try issue(scene, authorities.first, "keys/server")
    return (authorities, try await start(scene, server(port, ("keys/server.pem", "keys/server.key"))))
  }

  @Test func `a certificate that is renewed where only root reads is served`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let (authorities, daemon) = try await served(scene, port)
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    #expect(await answer(scene, port, trusting: "first") == "one")
    // By a change alone.
    try issue(scene, authorities.second, "keys/server")
    try await until("the renewed certificate") { await answer(scene, port, trusting: "second") == "one" }
    try await daemon.logged("changed: ", "keys/server.key")
    // By HUP, with a configuration that only root reads, too.
    try issue(scene, authorities.first, "keys/other")
    try daemon.rewrite(Self.asNobody(server(port, ("keys/other.pem", "keys/other.key"), "two")))
    daemon.signal(SIGHUP)
    try await until("the other certificate") { await answer(scene, port, trusting: "first") == "two" }
    #expect(!daemon.errorLog.contains("[emerg]"), "\(daemon.errorLog)")
  }

  @Test func `certbot's links are followed, and lead to what they lead to after a renewal`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    for folder in ["live/a", "archive/a"] { try scene.makeFolder(folder) }
    for folder in ["live", "archive"] { chmod(scene.path(folder), 0o700) }
    func renew(_ authority: TestAuthority, _ number: Int) throws {
      try issue(scene, authority, "archive/a/\(number)")
      for (name, file) in [("fullchain", "\(number).pem"), ("privkey", "\(number).key")] {
        symlink("../../archive/a/\(file)", scene.path("live/a/.new"))
        rename(scene.path("live/a/.new"), scene.path("live/a/\(name).pem"))
      }
    }
    try renew(authorities.first, 1)
    let daemon = try await start(scene, server(port, ("live/a/fullchain.pem", "live/a/privkey.pem")))
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    try renew(authorities.second, 2)
    try await until("the renewed certificate") { await answer(scene, port, trusting: "second") == "one" }
  }

  @Test func `a reload names a key in a folder that the start did not name, as certbot makes one for a new name`()
    async throws
  {
    let scene = try Scene.ofTest(), (port, second) = try (scene.port(), scene.port())
    let authorities = try authorities(scene)
    for folder in ["etc", "live/a", "live/b"] { try scene.makeFolder(folder) }
    chmod(scene.path("live"), 0o700)
    try issue(scene, authorities.first, "live/a/server")
    try issue(scene, authorities.second, "live/b/server")
    func server(_ port: UInt16, _ name: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; return 200 \(name);
        ssl_certificate \(scene.path("live/\(name)/server.pem")); ssl_certificate_key \(scene.path("live/\(name)/server.key")); }
      """
    }
    let text = Self.asNobody(configuration(server(port, "a")))
    let daemon = try Sallyport(scene, text, name: "etc/sallyport", userAsWritten: true)
    try await until("the daemon") { !scene.text("etc/sallyport.pid").isEmpty }
    try daemon.rewrite(Self.asNobody(configuration(server(port, "a") + server(second, "b"))))
    daemon.signal(SIGHUP)
    try await until("the second name") { await answer(scene, second, trusting: "second") == "b" }
    try issue(scene, authorities.first, "live/b/server")
    try await until("its renewed certificate") { await answer(scene, second, trusting: "first") == "b" }
    // A log is written in the folders of the start alone.
    let other = configuration(server(port, "a")).replacing("access.log", with: scene.path("live/access.log"))
    try daemon.rewrite(Self.asNobody(other))
    daemon.signal(SIGHUP)
    try await until("the refusal") { scene.text("etc/error.log").contains("[emerg]") }
    #expect(access(scene.path("live/access.log"), F_OK) != 0)
  }

  @Test func `pins in a folder of root's and files by a pattern are read again`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    for folder in ["pins", "conf.d"] { chmod(try scene.makeFolder(folder), 0o700) }
    let upstream = try ScriptedUpstream.echo(scene)
    _ = try scene.identity("pins/one", authorities.first.server())
    unlink(scene.path("pins/one.key"))
    try scene.write("conf.d/a.conf", text: "server { listen 127.0.0.1:\(port); include parts.conf; }")
    try scene.write(
      "parts.conf",
      text: """
        location / { return 200 one; }
        location /up { proxy_pass https://127.0.0.1:\(upstream.port); proxy_ssl_pin pins; }
        """)
    let daemon = try await start(scene, configuration("include conf.d/*.conf;"))
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    let second = try scene.port()
    try scene.write("conf.d/b.conf", text: "server { listen 127.0.0.1:\(second); return 200 two; }")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await scene.curl(["http://127.0.0.1:\(second)/"]).text == "two")
    _ = try scene.identity("pins/two", authorities.second.server())
    unlink(scene.path("pins/two.key"))
    try await daemon.logged("changed: ", scene.path("pins"))
    try await daemon.logged("reconfigured: generation 3")
  }

  @Test func `USR1 and HUP reopen logs in a folder of root's`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    chmod(try scene.makeFolder("logs"), 0o700)
    let text = configuration("server { listen 127.0.0.1:\(port); access_log logs/access.log; return 200 one; }")
    let daemon = try await start(scene, text)
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    for (number, signal) in [(1, SIGUSR1), (2, SIGHUP)] {
      _ = try await scene.curl(["http://127.0.0.1:\(port)/before\(number)"])
      try await until("the line") { scene.text("logs/access.log").contains("/before\(number)") }
      rename(scene.path("logs/access.log"), scene.path("logs/access.log.\(number)"))
      daemon.signal(signal)
      try await until("the new log") { access(scene.path("logs/access.log"), F_OK) == 0 }
      _ = try await scene.curl(["http://127.0.0.1:\(port)/after\(number)"])
      try await until("the line") { scene.text("logs/access.log").contains("/after\(number)") }
    }
    // One that logrotate has given to the user that serves, in a folder that this user can't enter.
    let nobody = try #require(getpwnam("nobody")?.pointee)
    rename(scene.path("logs/access.log"), scene.path("logs/access.log.3"))
    try scene.write("logs/access.log", text: "")
    chown(scene.path("logs/access.log"), nobody.pw_uid, nobody.pw_gid)
    daemon.signal(SIGUSR1)
    try await until("a line in it") {
      _ = try await scene.curl(["http://127.0.0.1:\(port)/again"])
      return scene.text("logs/access.log").contains("/again")
    }
    #expect(!daemon.errorLog.contains("[emerg]"), "\(daemon.errorLog)")
  }

  @Test func `a reload binds a port below 1024`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let own = "127.\(getpid() & 0x7F).\(getpid() >> 7 & 0xFF).11:944"
    func text(_ lines: String) -> String { configuration("server { \(lines) return 200 one; }") }
    let daemon = try await start(scene, text("listen 127.0.0.1:\(port);"))
    try daemon.rewrite(Self.asNobody(text("listen 127.0.0.1:\(port); listen \(own);")))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    // Each worker has a socket of its own.
    for _ in 0..<8 { #expect(try await scene.curl(["http://\(own)/"]).text == "one") }
    // One that somebody else has is not shared with them.
    let other = try Sallyport(scene, text("listen \(own);"), name: "other")
    #expect(try await other.process.ended() == .exited(1))
    #expect(other.errors.contains("bind() to \(own) failed (98: Address already in use)"), "\(other.errors)")
  }

  /// As who has taken over the process that serves: with its own end of the channel.
  @Test func `nothing else is opened, whoever asks`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    for folder in ["keys", "logs", "other"] { chmod(try scene.makeFolder(folder), 0o700) }
    try issue(scene, authorities.first, "keys/server")
    try scene.write("keys/unnamed.key", text: "secret")
    try scene.write("other/secret", text: "secret")
    let text = server(port, ("keys/server.pem", "keys/server.key"))
      .replacing("access.log", with: "logs/access.log")
    let daemon = try await start(scene, text)
    _ = try await opener(of: daemon)
    let free = try scene.port()
    let (read, append, expand, listen) = (2, 3, 4, 5)
    let key = scene.path("keys/server.key"), log = scene.path("logs/access.log")
    let asked: [(verb: Int, text: String, isGiven: Bool)] = [
      (read, key, true), (append, log, true), (listen, "127.0.0.1:\(port)", false),
      (read, "/etc/shadow", false), (read, scene.path("keys/unnamed.key"), false),
      (read, scene.path("keys"), false), (read, scene.path("keys/../other/secret"), false),
      (read, scene.path("other/secret"), false), (read, "\(key)\0", false), (read, "", false),
      (read, log, false), (append, key, false), (append, "/etc/passwd", false), (append, log + ".1", false),
      (expand, "/etc/*", false), (listen, "127.0.0.1:\(free)", false), (9, key, false),
    ]
    try scene.write("ask.py", text: Self.asking)
    for (index, one) in asked.enumerated() {
      let answer = try await scene.run(
        "python3",
        [
          scene.path("ask.py"), "\(daemon.process.identifier)", "\(one.verb)",
          one.text.utf8.map { String(format: "%02x", $0) }.joined(),
        ])
      #expect(answer.status == 0, "\(answer.everything)")
      // The port that is named is in use, and so not given either: but for that reason.
      let isInUse = one.verb == listen && one.text.hasSuffix(":\(port)")
      #expect(answer.text.contains("given") == one.isGiven, "\(index) \(one): \(answer.text)")
      #expect(!isInUse || answer.text.contains("refused 98"), "\(answer.text)")
    }
    #expect(await self.answer(scene, port, trusting: "first") == "one")
  }

  /// Takes the process's channels (pidfd_getfd), asks on each, and prints what the one that answers in this form says.
  private static let asking = """
    import array, ctypes, os, socket, struct, sys
    pid, verb, text = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3] if len(sys.argv) > 3 else "")
    call = ctypes.CDLL(None, use_errno=True).syscall
    process = call(434, pid, 0)
    assert process >= 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"): continue
        copy = call(438, process, int(name), 0)
        if copy < 0: continue
        channel = socket.socket(fileno=copy)
        if channel.type & 0xF != socket.SOCK_SEQPACKET: continue
        # Not settimeout(), which would change the process's own descriptor.
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0))
        channel.send(struct.pack(">IB", 0xFEEDBEEF, verb) + text)
        try: answer, control, _, _ = channel.recvmsg(2048, 4096)
        except BlockingIOError: continue
        if len(answer) < 8 or answer[:4] != bytes.fromhex("feedbeef"): continue
        code = struct.unpack(">i", answer[4:8])[0]
        print("given" if control else f"refused {code} {answer[8:].decode()}")
    """

  @Test(arguments: [
    ("conf/sallyport.conf", mode_t(0o644), "its owner is not root"),
    ("conf/part.conf", mode_t(0o666), "its group or others can write it"),
    ("conf", mode_t(0o777), "its group or others can write it"),
  ])
  func `a configuration that others than root can change is not trusted`(
    file: String, mode: mode_t, words: String
  ) async throws {
    let nobody = try #require(getpwnam("nobody")?.pointee)
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    chmod(scene.folder, 0o755)
    chmod(try scene.makeFolder("keys"), 0o700)
    try scene.makeFolder("conf")
    try issue(scene, authorities.first, "keys/server")
    try scene.write("conf/part.conf", text: "server_tokens off;")
    let text = server(port, (scene.path("keys/server.pem"), scene.path("keys/server.key")))
      .replacing("http {", with: "http { include part.conf;")
    let daemon = try Sallyport(scene, Self.asNobody(text), name: "conf/sallyport", userAsWritten: true)
    try await until("the daemon") { !scene.text("conf/sallyport.pid").isEmpty }
    _ = try await opener(of: daemon)
    // Whoever changes it names what root alone may read.
    try scene.write("conf/part.conf", text: "auth_basic_user_file /etc/shadow; auth_basic x;")
    chmod(scene.path("conf/part.conf"), 0o644)
    if words.contains("owner") { chown(scene.path(file), nobody.pw_uid, nobody.pw_gid) }
    chmod(scene.path(file), mode)
    daemon.signal(SIGHUP)
    try await until("the refusal") { scene.text("conf/error.log").contains("generation 1 serves on") }
    let log = scene.text("conf/error.log")
    #expect(log.contains("\"/etc/shadow\": cannot be opened: Permission denied"), "\(log)")
    #expect(log.contains("the opener of root's files doesn't trust the configuration"), "\(log)")
    #expect(log.contains(words), "\(log)")
    #expect(await answer(scene, port, trusting: "first") == "one")
    // The same text, root's alone.
    chown(scene.path(file), 0, 0)
    chmod(scene.path(file), file == "conf" ? 0o755 : 0o644)
    daemon.signal(SIGHUP)
    try await until("the reload") { scene.text("conf/error.log").contains("reconfigured: generation 2") }
  }

  @Test func `a link in a folder of the user that serves leads it nowhere`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    let nobody = try #require(getpwnam("nobody")?.pointee)
    chmod(scene.folder, 0o755)
    chmod(try scene.makeFolder("root"), 0o700)
    try issue(scene, authorities.first, "root/server")
    chown(try scene.makeFolder("own"), nobody.pw_uid, nobody.pw_gid)
    for name in ["server.pem", "server.key"] { symlink("../root/\(name)", scene.path("own/\(name)")) }
    let daemon = try await start(scene, server(port, ("own/server.pem", "own/server.key")))
    #expect(daemon.errors.contains("own/server.key\" can't be read as the user that serves"), "\(daemon.errors)")
    #expect(
      daemon.errors.contains("\"\(scene.path("own"))\" can be changed by others than root: its owner is nobody"),
      "\(daemon.errors)")
    // A reload keeps what root has read at the start, and takes nothing new by such a link.
    for name in ["server.pem", "server.key"] { symlink("../root/\(name)", scene.path("own/new-\(name)")) }
    try daemon.rewrite(Self.asNobody(server(port, ("own/new-server.pem", "own/new-server.key"))))
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused")
    let log = daemon.errorLog
    #expect(log.contains("cannot be opened: Permission denied") && !log.contains("the image runs as"), "\(log)")
    #expect(await answer(scene, port, trusting: "first") == "one")
  }

  @Test func `its end is told, and serving goes on with what was read`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let (authorities, daemon) = try await served(scene, port)
    let healthy = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(healthy.status == 0 && !healthy.text.contains("WARN"), "\(healthy.everything)")
    kill(try await opener(of: daemon), SIGKILL)
    try await daemon.logged("[alert]", "the process that opens root's files has ended")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(
      health.text.contains("WARN    process: the process that opens root's files has ended"), "\(health.everything)")
    try issue(scene, authorities.second, "keys/server")
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused")
    #expect(daemon.errorLog.contains("has ended or hangs: restart"), "\(daemon.errorLog)")
    #expect(await answer(scene, port, trusting: "first") == "one")
    // The next process has one again.
    let main = daemon.process.identifier
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: main)
    #expect(await answer(scene, port, trusting: "second") == "one")
    #expect(openers(of: fresh).count == 1)
  }

  private func successor(_ scene: Scene, of former: pid_t) async throws -> pid_t {
    let fresh = try await waiting(for: "the pid file of the new process") { () -> pid_t? in
      let written = pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines))
      return written == former ? nil : written
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    return fresh
  }

  @Test(arguments: ["", "sandbox off;"])
  func `after USR2 the new process has its own`(line: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let authorities = try authorities(scene)
    chmod(try scene.makeFolder("keys"), 0o700)
    try issue(scene, authorities.first, "keys/server")
    let text = line + server(port, ("keys/server.pem", "keys/server.key"))
    let daemon = try await start(scene, text)
    let main = daemon.process.identifier, former = try await opener(of: daemon)
    try issue(scene, authorities.second, "keys/server")
    daemon.signal(SIGUSR2)
    let fresh = try await successor(scene, of: main)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(kill(former, 0) != 0)
    #expect(await answer(scene, port, trusting: "second") == "one")
    try issue(scene, authorities.first, "keys/server")
    kill(fresh, SIGHUP)
    try await until("the renewed certificate") { await answer(scene, port, trusting: "first") == "one" }
    let next = try #require(openers(of: fresh).first)
    // However the process that serves ends.
    kill(fresh, SIGKILL)
    try await until("the opener to end") { kill(next, 0) != 0 }
  }

  @Test func `it keeps few rights, and heeds no signal of a service manager`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 one; }")
    let daemon = try await start(scene, text)
    let process = try await opener(of: daemon)
    func fields() throws -> [String: String] {
      let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
      return Dictionary(
        status.split(separator: "\n").compactMap { line in
          line.firstIndex(of: ":").map {
            (String(line[..<$0]), line[line.index(after: $0)...].trimmingCharacters(in: .whitespaces))
          }
        }, uniquingKeysWith: { first, _ in first })
    }
    try await until("its filter of system calls") { try fields()["Seccomp"] == "2" }
    let found = try fields()
    // capabilities(7): DAC_OVERRIDE, DAC_READ_SEARCH, NET_BIND_SERVICE.
    let most = UInt64(1) << 1 | 1 << 2 | 1 << 10
    let held = try #require(UInt64(found["CapPrm"] ?? "", radix: 16))
    #expect(held & ~most == 0 && found["CapBnd"] == "0000000000000000" && found["CapAmb"] == "0000000000000000")
    #expect(found["NoNewPrivs"] == "1" && found["Threads"] == "1", "\(found)")
    let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd")
    #expect(Set(open) == ["0", "1", "2", "3"], "\(open)")
    for number in [SIGTERM, SIGQUIT, SIGINT, SIGHUP] { kill(process, number) }
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(openers(of: daemon.process.identifier) == [process])
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(kill(process, 0) != 0)
  }

  @Test func `who stays root, and who never was, has no such process`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let daemon = try await start(
      scene, "user root; " + configuration("server { listen 127.0.0.1:\(port); return 200 one; }"))
    #expect(openers(of: daemon.process.identifier).isEmpty)
  }
}
