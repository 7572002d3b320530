import Glibc
import TestSupport
import Testing

/// The folders of `client_body_temp_path` that a start makes, beside nginx.
@Suite(.staged) struct `A folder for bodies that is missing` {
  /// A folder that the user who serves can't write, but enter.
  private static func closedFolder(_ scene: Scene, _ name: String) throws -> String {
    let folder = try scene.makeFolder(name)
    chmod(scene.folder, 0o755)
    chmod(folder, 0o755)
    return folder
  }

  private static func owner(_ path: String) -> (user: uid_t, mode: mode_t)? {
    var status = stat()
    return stat(path, &status) == 0 ? (status.st_uid, status.st_mode & 0o7777) : nil
  }

  @Test(.enabled(if: geteuid() == 0, "only root can make it for somebody else"))
  func `is made for the user that serves, as by nginx`() async throws {
    let scene = try Scene.ofTest(), upstream = try ScriptedUpstream.echo(scene)
    let (port, nginx) = try (scene.port(), scene.port())
    let (ours, theirs) = try (Self.closedFolder(scene, "ours"), Self.closedFolder(scene, "theirs"))
    for folder in [ours, theirs] { try #require(mkdir("\(folder)/empty", 0o755) == 0) }
    func text(_ folder: String, _ port: UInt16) -> String {
      """
      server { listen 127.0.0.1:\(port); client_max_body_size 0; client_body_temp_path \(folder)/server/;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /own/ { client_body_temp_path \(folder)/location 1 2; proxy_pass http://127.0.0.1:\(upstream.port); }
        location /empty/ { client_body_temp_path \(folder)/empty; proxy_pass http://127.0.0.1:\(upstream.port); } }
      """
    }
    try scene.write(
      "twin.conf",
      text: """
        user nobody nogroup; pid \(scene.path("twin.pid")); daemon off; error_log \(scene.path("twin.log"));
        events {} http { access_log off; \(NginxUpstream.temporaryPaths(in: scene.folder)) \(text(theirs, nginx)) }
        """)
    let twin = try ChildProcess("nginx", ["-c", scene.path("twin.conf")], in: scene.folder, output: nil, errors: nil)
    scene.atEnd {
      // A master that is killed leaves its worker behind.
      twin.signal(SIGTERM)
      for _ in 0..<5000 where twin.ending == nil { usleep(1000) }
      twin.stop()
    }
    let checked = try scene.write("checked.conf", text: configuration(text(ours, port)))
    let check = try await scene.sallyport("check", "--config", checked)
    #expect(check.status == 0 && !check.text.contains("no file can be made"), "\(check.text)")
    let daemon = try Sallyport(scene, configuration(text(ours, port)), userAsWritten: true)
    try await daemon.untilReady()
    try await until("nginx to listen") { (try? Wire.dial(port: nginx)) != nil }
    let body = Pattern.bytes(3 << 20)
    for name in ["server", "location", "empty"] {
      let (mine, yours) = (Self.owner("\(ours)/\(name)"), Self.owner("\(theirs)/\(name)"))
      #expect(mine?.user == getpwnam("nobody")?.pointee.pw_uid && mine?.user == yours?.user, "\(name)")
      #expect(mine?.mode == yours?.mode, "\(name)")
    }
    for path in ["", "own/", "empty/"] {
      for port in [port, nginx] {
        let answer = try await scene.curl(["http://127.0.0.1:\(port)/\(path)"], input: body)
        #expect(answer.status == 200 && answer.body == body, "\(path)")
      }
    }
  }

  @Test func `is made by a reload, too, and one that can't be made stops start, reload and check`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    func text(_ folder: String) -> String {
      configuration("server { listen 127.0.0.1:\(port);\nclient_body_temp_path \(folder); return 200 x; }")
    }
    let daemon = try await Sallyport.start(scene, text("one"))
    #expect(Self.owner(scene.path("one"))?.mode == 0o700)
    try scene.write("sallyport.conf", text: text("two"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(Self.owner(scene.path("two"))?.mode == 0o700)
    let fault = "mkdir() \"\(scene.path("no/three"))\" failed (2: No such file or directory)"
    for (folder, fault) in [("no/three", fault), ("sallyport.conf", "failed (20: Not a directory)")] {
      let path = try scene.write("bad.conf", text: text(folder))
      let check = try await scene.sallyport("check", "--config", path)
      #expect(check.status == 1 && check.text.contains(fault), "\(check.everything)")
      let run = try await scene.sallyport("run", "--config", path)
      #expect(run.status == 78 && run.everything.contains(fault), "\(run.everything)")
    }
    #expect(try await scene.sallyport("check", "--config", scene.write("good.conf", text: text("four"))).status == 0)
    #expect(Self.owner(scene.path("four")) == nil)
    try scene.write("sallyport.conf", text: text("no/three"))
    daemon.signal(SIGHUP)
    try await daemon.logged("the new configuration is refused", "generation 2 serves on")
  }
}
