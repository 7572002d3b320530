import Glibc
import TestSupport
import Testing

/// What a hand types first that has typed `nginx` for years.
@Suite(.staged) struct `Command lines of nginx's` {
  private static let valid = "events {} http { sendfile on; server { listen 127.0.0.1:8099; return 204; } }"
  private static let invalid = "events {} http { server { lisen 1; } }"

  private func lastLine(_ result: ToolResult) -> String {
    result.text.split(separator: "\n").last.map(String.init) ?? ""
  }

  @Test func `check FILE, -t and -T read the file that they name`() async throws {
    let scene = try Scene.ofTest()
    let path = try scene.write("good.conf", text: Sallyport.withUser(Self.valid))
    for words in [
      ["check", path], ["-t", "-c", path], ["-tc", path], ["-c", path, "-t"], ["-t", "-c\(path)"],
      ["-t", "-g", "daemon on; master_process on;", "-c", path],
    ] {
      let result = try await scene.run(Sallyport.binary(), words)
      #expect(result.status == 0, "\(words) \(result.everything)")
      #expect(lastLine(result) == "configuration \(path) is valid", "\(words) \(result.everything)")
    }
    let dump = try await scene.sallyport("-T", "-c", path)
    #expect(dump.status == 0 && dump.text.contains("# configuration file \(path):") && dump.text.contains("return 204"))
    let quiet = try await scene.sallyport("-t", "-q", "-c", path)
    #expect(quiet.status == 0 && quiet.everything.isEmpty, "\(quiet.everything)")
    let bad = try scene.write("bad.conf", text: Sallyport.withUser(Self.invalid))
    for words in [["check", bad], ["-t", "-c", bad], ["-tqc", bad]] {
      let result = try await scene.run(Sallyport.binary(), words)
      #expect(result.status == 1 && result.text.contains("lisen"), "\(words) \(result.everything)")
    }
  }

  @Test func `-t alone reads the file that every command reads`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("sallyport.conf", text: Sallyport.withUser(Self.valid))
    let result = try await scene.run(
      "/bin/sh", ["-c", "cd \"$1\" && exec \"$2\" -t", "sh", scene.folder, Sallyport.binary()])
    #expect(result.status == 0 && lastLine(result).hasSuffix("sallyport.conf is valid"), "\(result.everything)")
  }

  @Test func `-c FILE alone serves, as -g 'daemon off;' does`() async throws {
    let scene = try Scene.ofTest()
    for words in [["-c"], ["-g", "daemon off;", "-c"], ["run"]] {
      let port = try scene.port()
      let path = try scene.write(
        "serve.conf",
        text: Sallyport.withUser("events {} http { server { listen 127.0.0.1:\(port); return 200 served; } }"))
      let process = try ChildProcess(
        Sallyport.binary(), words + [path], in: scene.folder, output: scene.path("serve.stdout"),
        errors: scene.path("serve.stderr"))
      scene.atEnd { process.stop() }
      try await until("an answer") { try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "served" }
      process.signal(SIGTERM)
      _ = try await process.ended()
    }
  }

  @Test func `what is nginx's and not to be had says what to do`() async throws {
    let scene = try Scene.ofTest()
    for (words, hint) in [
      (["-s", "restart"], "-s reload loads the configuration"),
      (["-p", "/srv", "-t"], "which -c FILE names"), (["-g", "worker_processes 2;"], "into the configuration file"),
      (["-g", "daemon on;"], "the service manager does the rest"), (["-e", "stderr"], "error_log stderr;"),
    ] {
      let result = try await scene.run(Sallyport.binary(), words)
      #expect(result.status == 64 && result.errors.contains(hint), "\(words) \(result.everything)")
      #expect(result.errors.hasPrefix("error: \"\(words[0]) \(words[1])\" is nginx's"), "\(result.everything)")
    }
    for (words, message) in [
      (["-t", "a.conf"], "\"a.conf\" is not an option"), (["-c", "a.conf", "check"], "\"check\" is not an option"),
      (["-t", "-c"], "\"-c\" has no value"), (["-z"], "-z"), (["-tz"], "-tz"),
    ] {
      let result = try await scene.run(Sallyport.binary(), words)
      #expect(result.status == 64 && result.errors.contains(message), "\(words) \(result.everything)")
    }
    for (words, same) in [("-v", "--version"), ("-V", "--version"), ("-h", "--help"), ("-?", "--help")] {
      let (result, other) = (try await scene.sallyport(words), try await scene.sallyport(same))
      #expect(result.status == 0 && result.text == other.text, "\(result.everything)")
    }
    let both = try await scene.sallyport("check", "a.conf", "--config", "b.conf")
    #expect(both.status == 64 && both.errors.contains("name one configuration file"), "\(both.everything)")
  }

  /// A process is found as `sallyport health` finds it: by the configuration's path, also by a relative one.
  @Test func `-s finds the process by its configuration, and reload waits for the result`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    func text(_ word: String) -> String { configuration("server { listen 127.0.0.1:\(port); return 200 \(word); }") }
    let daemon = try await Sallyport.start(scene, text("one"))
    let path = scene.path("sallyport.conf")
    for (word, command) in [
      ("two", ["-s", "reload", "-c", path]), ("three", ["-c", path, "-sreload"]),
      ("four", ["reload", "--config", path]),
      ("five", ["reload", "-c", "sallyport.conf"]),
    ] {
      try daemon.rewrite(text(word))
      let result = try await scene.run(Sallyport.binary(), command)
      #expect(result.status == 0 && result.text.hasPrefix("Serving: generation "), "\(command) \(result.everything)")
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == word)
    }
    try daemon.rewrite(text("six") + "nonsense;")
    for command in [["-s", "reload", "-c", path], ["reload", "--config", path]] {
      let refused = try await scene.run(Sallyport.binary(), command)
      #expect(refused.status == 1 && refused.errors.contains("nonsense"), "\(refused.everything)")
      #expect(refused.errors.contains("generation 5 serves on"), "\(refused.everything)")
    }
    rename(scene.path("access.log"), scene.path("access.log.1"))
    let reopened = try await scene.sallyport("-s", "reopen", "-c", path)
    #expect(reopened.status == 0 && reopened.text.contains("the logs are open anew"), "\(reopened.everything)")
    #expect(access(scene.path("access.log"), F_OK) == 0)
    let quit = try await scene.sallyport("-s", "quit", "-c", path)
    #expect(quit.status == 0 && quit.text.contains("has ended"), "\(quit.everything)")
    #expect(try await daemon.process.ended() == .exited(0))
    for command in ["reload", "quit", "stop", "reopen"] {
      let absent = try await scene.sallyport("-s", command, "-c", path)
      #expect(absent.status == 1 && absent.errors.hasPrefix("error: no process runs "), "\(absent.everything)")
    }
    let next = try await Sallyport.start(scene, text("seven"))
    #expect(try await scene.sallyport("-s", "stop", "-c", path).status == 0)
    #expect(try await next.process.ended() == .exited(0))
  }
}
