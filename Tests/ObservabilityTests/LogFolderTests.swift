import Bytes
import Glibc
import Testing

@testable import Observability

@Suite struct `A folder of logs` {
  private func folder(_ folder: Folder, _ cache: OpenLogCache = .standard, _ losses: LogLosses = LogLosses()) throws
    -> LogFolder
  {
    try LogFolder(
      LogFolderSettings(folder: "\(folder.path)/", text: "logs/$host.log", cache: cache), losses: losses)
  }

  private func send(_ lines: [(name: String, line: String)], to folder: LogFolder) {
    let named = NamedLogLines()
    for (name, line) in lines {
      Array(name.utf8).withUnsafeBytes { name in Array(line.utf8).withUnsafeBytes { named.append(name, $0) } }
    }
    folder.send(named)
    folder.drain(within: 10_000)
  }

  @Test func `each line goes to the file that is named with it`() throws {
    let place = Folder(), logs = try folder(place)
    send([("a.log", "1"), ("b.log", "2"), ("a.log", "3")], to: logs)
    send([("a.log", "4")], to: logs)
    #expect(place.text("a.log") == "1\n3\n4\n" && place.text("b.log") == "2\n")
    #expect(logs.openCount == 2)
    var status = stat()
    #expect(stat("\(place.path)/a.log", &status) == 0 && status.st_mode & 0o137 == 0)
  }

  @Test func `no more files stay open than open_log_file_cache says, and off leaves none`() throws {
    let place = Folder()
    let logs = try folder(place, OpenLogCache(max: 2, inactive: 60_000, valid: 0, leastUses: 1))
    send((0..<9).map { ("\($0).log", "x") }, to: logs)
    #expect(logs.openCount == 2)
    for number in 0..<9 { #expect(place.text("\(number).log") == "x\n") }
    let off = try folder(place, .off)
    send([("0.log", "y")], to: off)
    #expect(off.openCount == 0 && place.text("0.log") == "x\ny\n")
    let seldom = try folder(place, OpenLogCache(max: 9, inactive: 60_000, valid: 0, leastUses: 2))
    send([("0.log", "z")], to: seldom)
    #expect(seldom.openCount == 0)
  }

  @Test func `a file that was moved away is made anew`() throws {
    let place = Folder(), logs = try folder(place)
    send([("a.log", "1")], to: logs)
    #expect(rename("\(place.path)/a.log", "\(place.path)/a.log.1") == 0)
    send([("a.log", "2")], to: logs)
    #expect(place.text("a.log.1") == "1\n" && place.text("a.log") == "2\n")
    // With `valid`, USR1 tells of it.
    let slow = try folder(place, OpenLogCache(max: 2, inactive: 60_000, valid: 60_000, leastUses: 1))
    send([("b.log", "1")], to: slow)
    #expect(rename("\(place.path)/b.log", "\(place.path)/b.log.1") == 0)
    send([("b.log", "2")], to: slow)
    slow.reopen()
    send([("b.log", "3")], to: slow)
    #expect(place.text("b.log.1") == "1\n2\n" && place.text("b.log") == "3\n")
  }

  @Test func `no link leads out of the folder, and lines that can't be written are counted by the log's own text`()
    throws
  {
    let place = Folder(), outside = Folder(), losses = LogLosses()
    let logs = try folder(place, .standard, losses)
    #expect(symlink("\(outside.path)/x.log", "\(place.path)/a.log") == 0)
    #expect(symlink(outside.path, "\(place.path)/sub") == 0)
    #expect(mkfifo("\(place.path)/pipe", 0o600) == 0)
    send([("a.log", "1"), ("sub/b.log", "2"), ("missing/c.log", "3"), ("pipe", "4"), ("d.log", "5")], to: logs)
    #expect(outside.text("x.log").isEmpty && outside.text("b.log").isEmpty && place.text("d.log") == "5\n")
    #expect(losses.totals == ["logs/$host.log": 4] && logs.failedWrites == 4)
  }

  @Test func `folders in the folder are used`() throws {
    let place = Folder(), logs = try folder(place)
    #expect(mkdir("\(place.path)/h", 0o700) == 0)
    send([("h/a.log", "1"), ("/h//a.log", "2")], to: logs)
    #expect(place.text("h/a.log") == "1\n2\n")
  }

  @Test func `a folder that isn't there is refused`() throws {
    let place = Folder()
    for name in ["missing/", "file/"] {
      #expect(makeFile("\(place.path)/file"))
      #expect(throws: LogDestinationError.self) {
        try LogFolder(
          LogFolderSettings(folder: "\(place.path)/\(name)", text: "x", cache: .standard), losses: LogLosses())
      }
    }
  }

  @Test(arguments: [
    ("a.log", true), ("h/a.log", true), ("..a", true), ("a..", true), ("...", true), ("/a", true), ("", false),
    (".", false), ("..", false), ("../a", false), ("a/..", false), ("a/../b", false), ("./a", false), ("a/", false),
  ]) func `a name leads to a file below the folder, or is none`(name: String, isOne: Bool) {
    #expect(Array(name.utf8).withUnsafeBytes { LogFileName.isBelow($0) } == isOne)
  }

  @Test(arguments: [
    ("h.test", true), ("", true), ("é", true), ("a/b", false), ("a\0b", false), ("a\nb", false), ("\u{7f}", false),
  ])
  func `a value with a slash or a control character is part of no name`(value: String, isOne: Bool) {
    #expect(Array(value.utf8).withUnsafeBytes { LogFileName.admits($0) } == isOne)
  }

  @Test func `one folder serves all generations`() throws {
    let place = Folder(), files = LogFiles()
    let settings = LogFolderSettings(folder: "\(place.path)/", text: "x", cache: .standard)
    let first = try files.accessLog(for: .folder(settings)), second = try files.accessLog(for: .folder(settings))
    guard case .folder(let one) = first.sink, case .folder(let other) = second.sink else {
      Issue.record("no folder")
      return
    }
    #expect(one === other)
    let writer = first.makeWriter()
    #expect(writer.isEmpty)
    Array("a.log".utf8).withUnsafeBytes { name in Array("line".utf8).withUnsafeBytes { writer.append($0, to: name) } }
    #expect(!writer.isEmpty)
    writer.flush()
    files.drain(within: 10_000)
    #expect(writer.isEmpty && place.text("a.log") == "line\n")
  }
}

private func makeFile(_ path: String) -> Bool {
  let file = open(path, O_CREAT | O_WRONLY, 0o600)
  return file >= 0 && close(file) == 0
}
