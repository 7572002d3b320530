import Bytes
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
    let files = LogFiles { _ in recorder.handler() }
    ErrorLog([ErrorLogSink(level: .info, handler: try files.handler(for: .journal))]).info("heard")
    #expect(recorder.lines == ["info info heard"])
  }
}

@Suite struct `Access logs` {
  private func write(_ text: String, to writer: AccessLogWriter) {
    Array(text.utf8).withUnsafeBytes { writer.append($0) }
  }

  @Test func `lines wait until they are flushed, and leave in order`() throws {
    let folder = Folder(), files = LogFiles()
    let writer = try files.accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    for line in ["one", "two"] { write(line, to: writer) }
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "")
    #expect(!writer.isEmpty)
    writer.flush()
    #expect(writer.isEmpty)
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "one\ntwo\n")
    writer.flush()
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "one\ntwo\n")
  }

  @Test func `a full buffer leaves by itself, and no line is cut`() throws {
    let folder = Folder(), files = LogFiles()
    let writer = try files.accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    for _ in 0..<263 { write(String(repeating: "x", count: 999), to: writer) }
    files.drain(within: 5000)
    let written = folder.text("a.log")
    #expect(written.utf8.count == 262_000)
    #expect(written.split(separator: "\n").allSatisfy { $0.utf8.count == 999 })
    writer.flush()
    files.drain(within: 5000)
    #expect(folder.text("a.log").utf8.count == 263_000)
  }

  @Test func `buffer= is the bytes that wait, and flush= their age`() throws {
    let folder = Folder(), files = LogFiles()
    func text() -> String {
      files.drain(within: 5000)
      return folder.text("a.log")
    }
    let path = LogDestination.file(path: "\(folder.path)/a.log")
    let small = try files.accessLog(for: path, LogBuffering(capacity: 16, flush: nil)).makeWriter()
    write("0123456789", to: small)
    small.flushIfOld(now: 1_000_000)
    #expect(text() == "")
    write("abcdefghij", to: small)
    #expect(text() == "0123456789\n")
    small.flush()
    let slow = try files.accessLog(for: path, LogBuffering(capacity: 65_536, flush: 5000)).makeWriter()
    write("late", to: slow)
    for now in [UInt64(7000), 8000, 11_999] { slow.flushIfOld(now: now) }
    #expect(!text().hasSuffix("late\n"))
    slow.flushIfOld(now: 12_000)
    #expect(text().hasSuffix("late\n"))
    let usual = try files.accessLog(for: path).makeWriter()
    write("soon", to: usual)
    usual.flushIfOld(now: 12_001)
    #expect(text().hasSuffix("soon\n"))
  }

  @Test func `a compressed log gets each buffer as one block, and refuses to be written without a compressor`() throws {
    let folder = Folder()
    let files = LogFiles(compressor: { lines, level in Array("\(level)<".utf8) + Array(lines) + Array(">".utf8) })
    let path = LogDestination.file(path: "\(folder.path)/a.log")
    let buffering = LogBuffering(capacity: 8, flush: nil, gzipLevel: 3)
    let writer = try files.accessLog(for: path, buffering).makeWriter()
    for line in ["one", "two", "three"] { write(line, to: writer) }
    writer.flush()
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "3<one\ntwo\n>3<three\n>")
    #expect(throws: LogDestinationError.self) { try LogFiles().accessLog(for: path, buffering) }
  }

  @Test(arguments: [65_534, 65_535, 65_536, 200_000])
  func `a line as long as the buffer, or longer, is written whole`(count: Int) throws {
    let folder = Folder(), files = LogFiles()
    let writer = try files.accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
    for line in ["first", String(repeating: "x", count: count), "last"] { write(line, to: writer) }
    writer.flush()
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "first\n" + String(repeating: "x", count: count) + "\nlast\n")
  }

  @Test func `a writer that goes away flushes`() throws {
    let folder = Folder(), files = LogFiles()
    do {
      let writer = try files.accessLog(for: .file(path: "\(folder.path)/a.log")).makeWriter()
      write("kept", to: writer)
    }
    // The file may have closed by now: then everything is written.
    files.drain(within: 5000)
    #expect(folder.text("a.log") == "kept\n")
  }

  @Test func `a full disk loses lines, not memory, and the loss is told once`() throws {
    let files = LogFiles()
    let log = try files.accessLog(for: .file(path: "/dev/full"))
    let writer = log.makeWriter()
    for _ in 0..<10 { write(String(repeating: "x", count: 30_000), to: writer) }
    writer.flush()
    files.drain(within: 5000)
    #expect(writer.isEmpty)
    #expect(log.failedWrites == 10 && files.failedWrites == 10)
    #expect(files.losses.changes() == [.began(path: "/dev/full", reason: "(28: No space left on device)")])
    #expect(files.losses.changes() == [])
  }

  @Test func `a pipe that nobody reads stops no worker: what is too much is lost and counted`() throws {
    let folder = Folder(), files = LogFiles()
    let path = "\(folder.path)/pipe"
    #expect(mkfifo(path, 0o600) == 0)
    let writer = try files.accessLog(for: .file(path: path)).makeWriter()
    let line = String(repeating: "x", count: 1023)
    let lines = 3 * LogFile.mostWaiting / 1024
    for _ in 0..<lines { write(line, to: writer) }
    writer.flush()
    // The error log shares the pipe. Its line is lost, too, and nobody waits.
    let file = try files.file(path)
    file.write(string: "error\n")
    #expect(!file.drain(within: 1))
    let lost = files.failedWrites
    #expect(lost > UInt64(lines) / 2 && lost < UInt64(lines))
    guard case .began(path, let reason)? = files.losses.changes().first else {
      Issue.record("the loss isn't told")
      return
    }
    #expect(reason.contains("too slowly"))
    // A reader comes: everything that waited arrives, in whole lines.
    let reader = open(path, O_RDONLY | O_NONBLOCK)
    defer { close(reader) }
    var room = [UInt8](repeating: 0, count: 65_536), read = 0, ends = 0
    while !file.drain(within: 1) || read == 0 {
      let count = Glibc.read(reader, &room, room.count)
      if count > 0 { (read, ends) = (read + count, ends + room[..<count].count { $0 == 0x0A }) }
    }
    while case let count = Glibc.read(reader, &room, room.count), count > 0 {
      (read, ends) = (read + count, ends + room[..<count].count { $0 == 0x0A })
    }
    #expect(ends + Int(lost) == lines + 1 && read == ends * 1024)
    #expect(
      files.losses.changes(now: MonotonicClock.milliseconds + 2001).contains {
        if case .ended(path, lost, _, _) = $0 { true } else { false }
      })
  }
}

@Suite struct `Lines that a log lost` {
  @Test func `a log that takes some lines and loses others is losing them`() {
    let losses = LogLosses()
    #expect(losses.changes(now: 0) == [])
    for now in UInt64(1000)..<1500 {
      losses.note("a", 2, ENOSPC, tellsStandardError: false, now: now)
      losses.noteSuccess("a")
    }
    #expect(losses.changes(now: 1500) == [.began(path: "a", reason: "(28: No space left on device)")])
    losses.note("a", 1, ENOSPC, tellsStandardError: false, now: 9000)
    #expect(losses.changes(now: 12_000) == [])
    losses.noteSuccess("a")
    #expect(
      losses.changes(now: 12_001)
        == [.ended(path: "a", lines: 1001, seconds: 8, reason: "(28: No space left on device)")])
    #expect(losses.changes(now: 12_002) == [] && losses.total == 1001)
  }

  @Test func `is one that loses them now until it has taken some for two seconds`() {
    let losses = LogLosses()
    #expect(losses.current(now: 0).isEmpty)
    losses.note("a", 1, ENOSPC, tellsStandardError: false, now: 1000)
    #expect(losses.current(now: 90_000).map(\.path) == ["a"])
    losses.noteSuccess("a")
    #expect(losses.current(now: 2999).map(\.reason) == ["(28: No space left on device)"])
    #expect(losses.current(now: 3000).isEmpty)
  }

  @Test(arguments: [
    "", "a", "plain text that is longer", "quo\"te", "eight by\"", "back\\slash", "seven \u{7f}", "é", "line\n",
    "1234567\u{1}",
  ])
  func `what is plain is what would be copied unchanged`(text: String) {
    let bytes = Array(text.utf8)
    bytes.withUnsafeBytes { value in
      var json = ByteBuffer()
      var other = ByteBuffer()
      LogEscape.json(value, &json)
      LogEscape.default(value, &other)
      #expect(LogEscape.isPlainJSON(value) == (json.readable.elementsEqual(value) && value.allSatisfy { $0 < 0x80 }))
      #expect(LogEscape.isPlain(value) == other.readable.elementsEqual(value))
    }
  }

  @Test func `every byte at every place of a word is found`() {
    for place in 0..<17 {
      for byte in UInt8.min...UInt8.max {
        var bytes = [UInt8](repeating: 0x61, count: 17)
        bytes[place] = byte
        bytes.withUnsafeBytes { value in
          let isPlain = byte >= 0x20 && byte != 0x22 && byte != 0x5C
          #expect(LogEscape.isPlainJSON(value) == (isPlain && byte < 0x80))
          #expect(LogEscape.isPlain(value) == (isPlain && byte < 0x7F))
        }
      }
    }
  }

  @Test(
    arguments: [
      ([0xFF], "\\u00FF"), ([0xC3, 0xA9], "é"), ([0xC3], "\\u00C3"), ([0xC0, 0xAF], "\\u00C0\\u00AF"),
      ([0xED, 0xA0, 0x80], "\\u00ED\\u00A0\\u0080"), ([0xE2, 0x82, 0xAC, 0x22], "€\\\""),
      ([0xF4, 0x90, 0x80, 0x80], "\\u00F4\\u0090\\u0080\\u0080"), ([0xF0, 0x9F, 0x98, 0x80], "😀"),
      ([0x61, 0xE2, 0x82], "a\\u00E2\\u0082"),
    ] as [([UInt8], String)])
  func `bytes that are not UTF-8 can't make a line that is no JSON`(bytes: [UInt8], text: String) {
    var line = ByteBuffer()
    bytes.withUnsafeBytes { LogEscape.json($0, &line) }
    #expect(line.readable.text == text)
  }
}
