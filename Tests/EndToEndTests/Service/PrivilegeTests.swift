import Foundation
import Glibc
import TestSupport
import Testing

/// What root gives up, and what is said of what then can't be done.
@Suite(.staged, .enabled(if: geteuid() == 0, "only root has something to give up")) struct `Started by root` {
  /// As the kernel has it: user, group and capabilities of a process.
  private func standing(_ daemon: Sallyport) throws -> [String: String] {
    let text = try String(contentsOfFile: "/proc/\(daemon.process.identifier)/status", encoding: .utf8)
    return Dictionary(
      text.split(separator: "\n").compactMap { line in
        line.firstIndex(of: ":").map {
          (String(line[..<$0]), line[line.index(after: $0)...].split(separator: "\t").joined(separator: " "))
        }
      }, uniquingKeysWith: { first, _ in first })
  }

  private func start(_ scene: Scene, _ text: String, environment: [String: String] = [:]) async throws -> Sallyport {
    let daemon = try Sallyport(scene, text, userAsWritten: true, environment: environment)
    try await daemon.untilReady()
    return daemon
  }

  private func nobody() throws -> (user: uid_t, group: gid_t) {
    let account = try #require(getpwnam("nobody")?.pointee)
    return (account.pw_uid, getgrnam("nobody")?.pointee.gr_gid ?? account.pw_gid)
  }

  private func secret(_ scene: Scene, _ port: UInt16) throws -> String {
    _ = try Cast(scene)
    chmod(scene.path("server.key"), 0o600)
    let upstream = try ScriptedUpstream.echo(scene)
    return configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "optional"))
        client_max_body_size 0; location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
  }

  /// Root's configuration, which others can change, is not trusted; so nothing that only root reads is opened for it.
  @Test func `it serves as nobody, and says what a reload can't read`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = try secret(scene, port)
    try scene.write("part.conf", text: "server_tokens off;")
    chmod(scene.path("part.conf"), 0o666)
    let daemon = try await start(scene, text.replacing("http {", with: "http { include part.conf;"))
    let (user, group) = try nobody(), standing = try standing(daemon)
    #expect(standing["Uid"] == Array(repeating: "\(user)", count: 4).joined(separator: " "))
    #expect(standing["Gid"] == Array(repeating: "\(group)", count: 4).joined(separator: " "))
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] { #expect(standing[set] == "0000000000000000", "\(set)") }
    // Builds with a sanitizer have no process that stays root.
    let hasOpener = ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil
    #expect(
      daemon.errors.contains("part.conf\" can be changed by others than root: its group or others can write it")
        == hasOpener, "\(daemon.errors)")
    #expect(
      daemon.errors.contains(
        "warning: \"\(scene.path("server.key"))\" can't be read as the user that serves, nobody: a change of it has no effect until a restart"
      ),
      "\(daemon.errors)")
    #expect(daemon.errors.contains("or say `user root;` to stay root"))
    #expect(
      daemon.errors.contains("the user that serves, nobody, can't read the configuration: no HUP will succeed"))
    #expect(daemon.errors.contains("\"\(scene.path("error.log"))\" can't be opened again as the user that serves"))

    // It serves all the same, with a body that goes to a file.
    let body = Pattern.bytes(3 << 20)
    let answer = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/echo"],
      input: body)
    #expect(answer.status == 200 && answer.body == body)
    daemon.signal(SIGHUP)
    try await daemon.logged("[emerg]", "sallyport.conf\": permission denied")
    try await daemon.logged("the new configuration is refused, 1 error: generation 1 serves on")
    daemon.signal(SIGUSR1)
    try await daemon.logged("can't open the log file")
    #expect(try await scene.curl(["-k", "https://127.0.0.1:\(port)/"]).status == 200)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    // The folder is root's: what can't be removed is emptied at least.
    #expect(scene.text("sallyport.pid").isEmpty)
  }

  @Test func `nothing is said where nobody can read it all, and a reload works`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = try secret(scene, port)
    let (user, group) = try nobody()
    for name in [".", "server.key", "server.pem", "ca.pem"] { chown(scene.path(name), user, group) }
    // Made by nobody, so that USR1 finds them.
    for name in ["error.log", "access.log"] {
      try scene.write(name, text: "")
      chown(scene.path(name), user, group)
    }
    let daemon = try await start(scene, text)
    #expect(daemon.errors.isEmpty, "\(daemon.errors)")
    try scene.write("sallyport.conf", text: text)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
    #expect(access(scene.path("sallyport.pid"), F_OK) != 0)
  }

  @Test func `an include that nobody can list stops a reload, and is not taken for an empty one`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let (user, group) = try nobody()
    try scene.makeFolder("parts")
    try scene.write("parts/one.conf", text: "server { listen 127.0.0.1:\(port); return 200 one; }")
    chmod(scene.path("parts"), 0o700)
    chown(scene.folder, user, group)
    let daemon = try await start(scene, configuration("include parts/*.conf;"))
    #expect(daemon.errors.contains("cannot include \"\(scene.path("parts"))/*.conf\": permission denied"))
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "one")
  }

  @Test func `root stays where it is said aloud, and becomes whom user names`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 x; }")
    for (line, uid) in [("user root;", "0"), ("user daemon;", "\(try #require(getpwnam("daemon")?.pointee.pw_uid))")] {
      let daemon = try await start(scene, "\(line) \(text)")
      #expect(try standing(daemon)["Uid"]?.hasPrefix("\(uid) ") == true)
      if uid == "0" { #expect(daemon.errors.isEmpty, "\(daemon.errors)") }
      daemon.signal(SIGTERM)
      _ = try await daemon.process.ended()
      unlink(scene.path("sallyport.pid"))
    }
  }

  /// As with `User=` in the unit: the directive is for `check` by root.
  @Test func `a start as the user that user names says nothing, and one as another user warns`() async throws {
    let scene = try Scene.ofTest()
    let (user, group) = try nobody()
    chmod(scene.folder, 0o755)
    for (name, isSilent) in [("nobody", true), ("daemon", false)] {
      let port = try scene.port(), folder = try scene.makeFolder(name)
      chown(folder, user, group)
      let text = "user \(name); pid \(name)/pid; error_log \(name)/log; events {}"
      let path = try scene.write(
        "\(name).conf", text: text + "http { access_log off; server { listen 127.0.0.1:\(port); return 200 x; } }")
      chmod(path, 0o644)
      let daemon = try ChildProcess(
        "setpriv",
        ["--reuid=\(user)", "--regid=\(group)", "--clear-groups", Sallyport.binary(), "run", "--config", path],
        in: scene.folder, output: nil, errors: scene.path("\(name).errors"))
      scene.atEnd { daemon.stop() }
      try await until("its pid file") { !scene.text("\(name)/pid").isEmpty || daemon.ending != nil }
      let said = scene.text("\(name).errors")
      #expect(daemon.ending == nil && said.isEmpty == isSilent, "\(said)")
      #expect(said.contains("the \"user\" directive makes sense only") != isSilent, "\(said)")
    }
  }

  @Test func `check tells the same, and what requests can't reach`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("part.conf", text: "server_tokens off;")
    chmod(scene.path("part.conf"), 0o666)
    _ = try await scene.sallyport("ca", "init", scene.path("ca"))
    try scene.write("users", text: "alice:{SHA}x\n")
    chmod(scene.path("users"), 0o600)
    let text = configuration(
      """
      include part.conf;
      server { listen 127.0.0.1:8080; client_max_body_size 8m; location / { proxy_pass http://127.0.0.1:9; }
        location /in { auth_basic "x"; auth_basic_user_file users; proxy_pass http://127.0.0.1:9; }
        location = /enrol { enrolment on; enrolment_authority ca; auth_basic "x"; auth_basic_user_file users; } }
      """)
    let path = try scene.write("root.conf", text: text)
    let result = try await scene.sallyport("check", "--config", path, environment: ["TMPDIR": scene.folder])
    #expect(result.status == 0, "\(result.everything)")
    for words in [
      "notice: started by root it serves as nobody, the default of `user`",
      "the user that serves, nobody, can't read the configuration",
      "\"ca\" can't be used by the user that serves, nobody: nobody will be enrolled",
      "\"users\" can't be read as the user that serves, nobody: no password in it is accepted",
      "no file can be made in \"\(scene.folder)\" (Permission denied)",
    ] { #expect(result.text.contains(words), "\(words): \(result.text)") }
    #expect(try await scene.sallyport("check", "--strict", "--config", path).status == 1)
    // What root alone can change, a process that stays root reads again.
    chmod(scene.path("part.conf"), 0o644)
    let trusted = try await scene.sallyport("check", "--config", path)
    #expect(!trusted.text.contains("can't read the configuration"), "\(trusted.text)")
    #expect(!trusted.text.contains("no password in it is accepted"), "\(trusted.text)")
    let aloud = try scene.write("aloud.conf", text: "user root; " + text)
    let said = try await scene.sallyport("check", "--config", aloud)
    #expect(said.status == 0 && !said.text.contains("the user that serves"), "\(said.text)")
  }

  @Test func `whose key it is, who tried and what to do is said where the process runs`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    chmod(scene.folder, 0o755)
    chmod(scene.path("server.key"), 0o600)
    let path = try scene.write(
      "closed.conf",
      text: configuration("server { listen 127.0.0.1:8080 ssl; \(Cast.tls(verify: "off")) return 200; }"))
    for file in [path, scene.path("server.pem"), scene.path("ca.pem")] { chmod(file, 0o644) }
    let (user, group) = try nobody()
    func check(_ environment: [String: String]) async throws -> String {
      try await scene.run(
        "setpriv",
        ["--reuid=\(user)", "--regid=\(group)", "--clear-groups", Sallyport.binary(), "check", "--config", path],
        environment: environment
      ).everything
    }
    let inContainer = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0
    for (environment, words) in [
      (["INVOCATION_ID": "1"], inContainer ? "the image runs as uid" : "LoadCredential=server.key:"),
      (["KUBERNETES_SERVICE_HOST": "10.0.0.1"], "defaultMode: 0440"),
    ] {
      let text = try await check(environment)
      #expect(text.contains("cannot be opened: Permission denied: its owner is root:root, its mode 0600"), "\(text)")
      #expect(text.contains("sallyport tried as nobody:") && text.contains(words), "\(text)")
    }
  }

  @Test func `check does not say of a missing file that the serving user can't read it`() async throws {
    let scene = try Scene.ofTest()
    let path = try scene.write(
      "missing.conf",
      text: configuration(
        "server { listen 127.0.0.1:8080 ssl; ssl_certificate none.pem; ssl_certificate_key none.key; return 200 x; }"))
    let result = try await scene.sallyport("check", "--config", path)
    #expect(result.status == 1 && result.text.contains("error: ") && result.text.contains("none.pem"))
    #expect(!result.text.contains("\"\(scene.path("none.pem"))\" can't be read as the user"), "\(result.text)")
    #expect(!result.text.contains("none.key\" can't be read as the user"), "\(result.text)")
  }

  /// The configuration can be changed by nobody, so that no other process looks.
  @Test func `files that the serving user may not look at are no change`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = try secret(scene, port).replacingOccurrences(of: "server.key", with: "closed/server.key")
    try scene.makeFolder("closed")
    rename(scene.path("server.key"), scene.path("closed/server.key"))
    chmod(scene.path("closed"), 0o700)
    let (user, group) = try nobody()
    chown(scene.folder, user, group)
    let daemon = try await start(scene, text)
    let ca = try #require(scene.text("ca.pem").isEmpty ? nil : scene.text("ca.pem"))
    try scene.write("ca.pem", text: ca + "\n")
    try await daemon.logged("changed: ", "ca.pem")
    let lines = scene.text("error.log").split(separator: "\n").filter { $0.contains("changed: ") }
    #expect(!lines.contains { $0.contains("server.key") }, "\(lines)")
  }

  @Test func `a user that can't be had stops the start`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = configuration("server { listen 127.0.0.1:\(port); return 200 x; }")
    // As in a container of root's without capabilities.
    let daemon = try Sallyport(
      scene, text, launcher: ["setpriv", "--bounding-set=-setuid,-setgid", "--inh-caps=-all"], userAsWritten: true)
    #expect(try await daemon.process.ended() == .exited(78))
    #expect(daemon.errors.contains("failed (1: Operation not permitted)"), "\(daemon.errors)")
    #expect(daemon.errors.contains("root becomes `nobody` to serve"))
    #expect(access(scene.path("sallyport.pid"), F_OK) != 0)
  }
}
