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

  @Test func `a start without standard input leaves no process behind`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let path = try scene.write(
      "closed.conf", text: configuration("server { listen 127.0.0.1:\(port); location / { return 200 one; } }"))
    let shell = try ChildProcess(
      "bash", ["-c", "exec '\(Sallyport.binary())' run --config '\(path)' <&- >&- 2>&-"], in: scene.folder,
      output: scene.path("out"), errors: scene.path("err"))
    scene.atEnd { shell.stop() }
    try await until("an answer") { (try? await scene.curl(["http://127.0.0.1:\(port)/"]).text) == "one" }
    kill(shell.identifier, SIGQUIT)
    _ = try await shell.ended()
    try await until("no process to be left") { processes(of: path).isEmpty }
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
