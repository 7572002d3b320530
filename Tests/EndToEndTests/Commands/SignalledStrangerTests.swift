import Glibc
import TestSupport
import Testing

/// Root believes whoever answers in the name of a process if nobody else does. Whoever took the name, and left its number to a
/// process of root, would have root send the signals there.
@Suite(.staged, .enabled(if: geteuid() == 0, "only root believes a stranger")) struct `A stranger with the name` {
  /// PATH USER: has the answer of the process that runs the configuration at PATH, takes its name as USER once it has ended, and
  /// is a process of root from then on. Answers as the other process did, and prints the signals that it gets.
  private static let program = #"""
    import hashlib, os, signal, socket, sys, time

    for number in signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2:
        signal.signal(number, lambda number, _: print("signal", number, flush=True))
    root = os.stat("/")
    text = f"file\0{root.st_dev}/{root.st_ino}\0" + sys.argv[1]
    name = "\0sallyport/health/" + hashlib.sha256(text.encode()).hexdigest()[:32]
    answer, asked = b"", socket.socket(socket.AF_UNIX)
    asked.connect(name)
    while piece := asked.recv(65536): answer += piece
    print("asked", flush=True)

    user, listener = int(sys.argv[2]), socket.socket(socket.AF_UNIX)
    while True:
        try:
            listener.bind(name)
            break
        except OSError:
            time.sleep(0.05)
    os.setresuid(user, user, 0)
    listener.listen()
    os.setresuid(0, 0, 0)
    print("named", flush=True)
    while True:
        client = listener.accept()[0]
        try: client.sendall(answer)
        except OSError: pass
        client.close()
    """#

  @Test(arguments: [65_534, 0])
  func `gets the signals of root only while its number is of the user who answers`(user: uid_t) async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), path = scene.path("sallyport.conf")
    let daemon = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); return 204; }"))
    let stranger = try ChildProcess(
      "python3", ["-c", Self.program, path, "\(user)"], in: scene.folder, output: scene.path("out"),
      errors: scene.path("out.err"))
    scene.atEnd { stranger.stop() }
    try await until("the answer") { scene.text("out").contains("asked") }
    daemon.signal(SIGTERM)
    _ = try await daemon.process.ended()
    try await until("the name") { scene.text("out").contains("named") }
    for (words, signal) in [
      // As `-s quit`, which waits a minute: a stranger neither ends nor opens a log.
      (["signal", "quit", "--timeout", "1"], SIGQUIT), (["signal", "stop", "--timeout", "1"], SIGTERM),
      (["signal", "reopen", "--timeout", "1"], SIGUSR1),
      (["reload", "--timeout", "1"], SIGHUP), (["reload", "--restart", "--timeout", "1"], SIGUSR2),
    ] {
      let result = try await scene.run(Sallyport.binary(), words + ["-c", path])
      guard user != 0 else {
        try await until("the signal of \(words)") { scene.text("out").contains("signal \(signal)\n") }
        continue
      }
      #expect(
        result.status == 1
          && result.errors.contains("process \(stranger.identifier) is no longer of user \(user), who answers"),
        "\(words) \(result.everything)")
    }
    if user != 0 { #expect(scene.text("out") == "asked\nnamed\n") }
  }
}
