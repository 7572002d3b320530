import Glibc
import Logging
import Testing

@testable import Observability

@Suite struct `Log files` {
  @Test func `a file is made at once, private to user and group, and appended to`() throws {
    let folder = Folder()
    let path = "\(folder.path)/a.log"
    do {
      let file = try LogFile(opening: path)
      var status = stat()
      #expect(stat(path, &status) == 0)
      #expect(status.st_mode & 0o137 == 0)
      #expect(fcntl(file.descriptor, F_GETFD) & FD_CLOEXEC != 0)
      file.write(string: "one\n")
    }
    try LogFile(opening: path).write(string: "two\n")
    #expect(folder.text("a.log") == "one\ntwo\n")
  }

  @Test func `one path is one descriptor, however many logs name it`() throws {
    let folder = Folder()
    let files = LogFiles()
    let first = try files.file("\(folder.path)/a.log")
    #expect(try files.file("\(folder.path)/a.log") === first)
    #expect(try files.file("\(folder.path)/b.log") !== first)
  }

  @Test func `a file that no log uses any more closes`() throws {
    let folder = Folder()
    let files = LogFiles()
    weak var seen: LogFile?
    do {
      let file = try files.file("\(folder.path)/a.log")
      seen = file
      #expect(files.failedWrites == 0)
      withExtendedLifetime(file) {}
    }
    #expect(seen == nil)
    #expect(try files.file("\(folder.path)/a.log").path == "\(folder.path)/a.log")
  }

  @Test func `reopening follows the path behind the same descriptor`() throws {
    let folder = Folder()
    let files = LogFiles()
    let file = try files.file("\(folder.path)/a.log")
    let descriptor = file.descriptor
    file.write(string: "old\n")
    rename("\(folder.path)/a.log", "\(folder.path)/a.log.1")
    file.write(string: "still old\n")
    #expect(files.reopenAll() == [])
    file.write(string: "new\n")
    #expect(file.descriptor == descriptor)
    #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
    #expect(folder.text("a.log.1") == "old\nstill old\n")
    #expect(folder.text("a.log") == "new\n")
  }

  @Test func `a reopening that fails keeps the old file and says why`() throws {
    let folder = Folder()
    let files = LogFiles()
    let path = "\(folder.path)/a.log"
    let file = try files.file(path)
    rename(path, "\(folder.path)/a.log.1")
    mkdir(path, 0o700)
    defer { rmdir(path) }
    let errors = files.reopenAll()
    #expect(errors.count == 1)
    #expect(errors.first?.message.contains(path) == true)
    file.write(string: "kept\n")
    #expect(folder.text("a.log.1") == "kept\n")
  }

  @Test func `a folder that isn't there is an error that names the file`() {
    let error = #expect(throws: LogDestinationError.self) { try LogFile(opening: "/nowhere/at/all/a.log") }
    #expect(error?.message.contains("/nowhere/at/all/a.log") == true)
  }

  @Test func `a full disk is counted and kills nobody`() throws {
    let file = try LogFile(opening: "/dev/full")
    file.write(string: "lost\n")
    file.write(string: "lost too\n")
    #expect(file.failedWrites == 2)
  }

  @Test func `what the environment lends is written to, never reopened`() throws {
    let files = LogFiles()
    #expect(try files.file("/dev/stderr") === LogFile.standardError)
    try LogFile.standardError.reopen()
    #expect(fcntl(STDERR_FILENO, F_GETFD) >= 0)
  }

  @Test func `an error log into a file writes whole lines, from several threads`() async throws {
    let folder = Folder()
    let files = LogFiles()
    let handler = try files.handler(for: .file(path: "\(folder.path)/a.log"))
    let log = ErrorLog([ErrorLogSink(level: .notice, handler: handler)])
    await withTaskGroup(of: Void.self) { group in
      for task in 0..<4 {
        group.addTask { for turn in 0..<100 { log.alert("*\(task) turn \(turn)") } }
      }
    }
    let lines = folder.text("a.log").split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.count == 401)
    #expect(lines.last == "")
    #expect(lines.dropLast().allSatisfy { $0.contains(" [alert] ") && $0.contains(": *") })
  }

  @Test func `the journal is there only when somebody supplies it`() throws {
    let error = #expect(throws: LogDestinationError.self) { try LogFiles().handler(for: .journal) }
    #expect(error?.message.contains("journal") == true)
    let recorder = Recorder()
    let files = LogFiles { recorder.handler() }
    ErrorLog([ErrorLogSink(level: .info, handler: try files.handler(for: .journal))]).info("heard")
    #expect(recorder.lines == ["info info heard"])
    #expect(throws: LogDestinationError.self) { try files.accessLog(for: .journal) }
  }
}

@Suite struct `Access logs` {
  @Test func `lines wait until they are flushed, and leave in order`() throws {
    let folder = Folder()
    let writer = try LogFiles().accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    for line in ["one", "two"] { Array(line.utf8).withUnsafeBytes { writer.append($0) } }
    #expect(folder.text("a.log") == "")
    #expect(!writer.isEmpty)
    writer.flush()
    #expect(writer.isEmpty)
    #expect(folder.text("a.log") == "one\ntwo\n")
    writer.flush()
    #expect(folder.text("a.log") == "one\ntwo\n")
  }

  @Test func `a full buffer leaves by itself, and no line is cut`() throws {
    let folder = Folder()
    let writer = try LogFiles().accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    let line = [UInt8](repeating: UInt8(ascii: "x"), count: 999)
    for _ in 0..<66 { line.withUnsafeBytes { writer.append($0) } }
    let written = folder.text("a.log")
    #expect(written.utf8.count == 65_000)
    #expect(written.split(separator: "\n").allSatisfy { $0.utf8.count == 999 })
    writer.flush()
    #expect(folder.text("a.log").utf8.count == 66_000)
  }

  @Test(arguments: [65_534, 65_535, 65_536, 200_000])
  func `a line as long as the buffer, or longer, is written whole`(count: Int) throws {
    let folder = Folder()
    let writer = try LogFiles().accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    [UInt8]("first".utf8).withUnsafeBytes { writer.append($0) }
    [UInt8](repeating: UInt8(ascii: "x"), count: count).withUnsafeBytes { writer.append($0) }
    [UInt8]("last".utf8).withUnsafeBytes { writer.append($0) }
    writer.flush()
    #expect(folder.text("a.log") == "first\n" + String(repeating: "x", count: count) + "\nlast\n")
  }

  @Test func `a writer that goes away flushes`() throws {
    let folder = Folder()
    do {
      let writer = try LogFiles().accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
      [UInt8]("kept".utf8).withUnsafeBytes { writer.append($0) }
    }
    #expect(folder.text("a.log") == "kept\n")
  }

  @Test func `a full disk loses lines, not memory`() throws {
    let log = try LogFiles().accessLog(for: .file(path: "/dev/full"))
    let writer = log.makeWriter()
    let line = [UInt8](repeating: UInt8(ascii: "x"), count: 30_000)
    for _ in 0..<10 { line.withUnsafeBytes { writer.append($0) } }
    writer.flush()
    #expect(writer.isEmpty)
    #expect(log.failedWrites == 5)
  }
}
