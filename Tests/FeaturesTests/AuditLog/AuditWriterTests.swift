import Bytes
import ConfigurationSupport
import Crypto
import Glibc
import Observability
import TestSupport
import Testing

@testable import Audit
@testable import Features
@testable import Traffic

private struct Desk {
  let scene: Scene
  let shared = SharedState(features: Features.all)
  let path: String
  let file: LogFile

  init() throws {
    scene = try Scene()
    path = scene.path("audit.log")
    file = try LogFile(opening: path, isRead: true)
  }

  func writer(_ process: String = "p1") -> AuditWriter { AuditWriter(path, process: process, shared) }

  func attach(_ writer: AuditWriter, _ settings: AuditSettings? = nil, _ key: SignatureKey? = nil) {
    writer.attach(
      file, settings ?? AuditSettings(path: path), key, ErrorLog([]), first: AuditEvent(.start, at: 0))
  }

  func verify(_ files: [String] = ["audit.log"], keys: [SignatureKey] = []) throws -> AuditVerification {
    try AuditReport(files: files.map { scene.path($0) }, keys: keys).verification
  }

  func kinds(_ file: String = "audit.log") -> [AuditEvent.Kind?] {
    scene.text(file).split(separator: "\n").map { (try? AuditLine(Array($0.utf8)))?.kind }
  }
}

private let event = AuditEvent(.admission, at: 1)

@Suite struct `The writer of an audit log` {
  @Test func `lines of all threads are one chain, and the end is told`() async throws {
    let desk = try Desk(), writer = desk.writer()
    // What comes before the file is open isn't lost.
    writer.take(event)
    desk.attach(writer)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 { group.addTask { for _ in 0..<200 { writer.take(event) } } }
    }
    writer.close()
    let verification = try desk.verify()
    #expect(verification.problems == [] && verification.gaps == [])
    #expect(verification.lines == 1603 && desk.kinds().first == .start && desk.kinds().last == .stop)
  }

  @Test func `the next process goes on with the chain`() throws {
    let desk = try Desk()
    for process in ["p1", "p2", "p3"] {
      let writer = desk.writer(process)
      desk.attach(writer)
      writer.take(event)
      writer.close()
    }
    let verification = try desk.verify()
    #expect(verification.problems == [] && verification.gaps == [] && verification.end?.number == 9)
  }

  @Test func `two processes at a time write one chain, as when one replaces the other`() throws {
    let desk = try Desk(), (former, next) = (desk.writer("p1"), desk.writer("p2"))
    desk.attach(former)
    let other = try LogFile(opening: desk.path, isRead: true)
    next.attach(other, AuditSettings(path: desk.path), nil, ErrorLog([]), first: AuditEvent(.start, at: 0))
    for _ in 0..<50 {
      former.take(event)
      next.take(event)
    }
    former.close()
    next.take(event)
    next.close()
    let verification = try desk.verify()
    #expect(verification.problems == [] && verification.gaps == [] && verification.lines == 105)
  }

  /// Two processes, as those of USR2. `told`: which of them are told to reopen, in this order.
  @Test(arguments: [[0], [1], [0, 1], [1, 0], [0, 1, 0]])
  func `a rotation while two processes write leaves one chain, whoever is told of it`(told: [Int]) throws {
    let desk = try Desk(), fresh = try PrivateKey.generate(.ed25519)
    let (own, check) = try (
      SignatureKey.load(
        MaterialReference(
          parsing: desk.scene.write("audit.key", fresh.pem.withUnsafeBytes { Array($0) }), relativeTo: ""),
        .ed25519, to: .sign),
      SignatureKey.load(
        MaterialReference(
          parsing: desk.scene.write("audit.pub", fresh.publicKey.subjectPublicKeyInfo), relativeTo: ""),
        .ed25519, to: .verify)
    )
    let files = [desk.file, try LogFile(opening: desk.path, isRead: true)]
    let writers = [desk.writer("p1"), desk.writer("p2")]
    for (writer, file) in zip(writers, files) {
      writer.attach(file, AuditSettings(path: desk.path), own, ErrorLog([]), first: AuditEvent(.start, at: 0))
      // Written at once, on the writer's thread.
      writer.take(event)
    }
    rename(desk.path, desk.scene.path("audit.log.1"))
    for number in told {
      for writer in writers { writer.take(event) }
      try files[number].reopen()
      for writer in writers { writer.take(event) }
    }
    for writer in writers { writer.close() }
    let kinds = (former: desk.kinds("audit.log.1"), next: desk.kinds())
    #expect(kinds.former.suffix(2) == [.rotate, .signature], "\(kinds)")
    #expect(kinds.former.filter { $0 == .rotate }.count == 1 && !kinds.next.contains(.rotate), "\(kinds)")
    #expect(kinds.next.first == .resume && kinds.next.filter { $0 == .stop }.count == 2, "\(kinds)")
    let verification = try desk.verify(["audit.log.1", "audit.log"], keys: [check])
    #expect(verification.problems == [] && verification.gaps == [] && verification.unsigned == 0)
    let admissions = (kinds.former + kinds.next).filter { $0 == .admission }.count
    #expect(admissions == 2 + 4 * told.count)
    #expect(desk.shared.ongoing.current.isEmpty)
  }

  @Test func `a process that starts with a file that was rotated meanwhile goes on in the next one`() throws {
    let desk = try Desk(), former = desk.writer("p1"), next = desk.writer("p2")
    desk.attach(former)
    let opened = try LogFile(opening: desk.path, isRead: true)
    rename(desk.path, desk.scene.path("audit.log.1"))
    try desk.file.reopen()
    next.attach(opened, AuditSettings(path: desk.path), nil, ErrorLog([]), first: AuditEvent(.start, at: 0))
    for writer in [former, next] { writer.close() }
    let verification = try desk.verify(["audit.log.1", "audit.log"])
    #expect(verification.problems == [] && verification.gaps == [])
    #expect(desk.kinds() == [.resume, .start, .stop, .stop])
  }

  @Test func `a file that is reopened and was not moved has no end`() throws {
    let desk = try Desk(), writer = desk.writer()
    desk.attach(writer)
    try desk.file.reopen()
    writer.take(event)
    writer.close()
    #expect(desk.kinds() == [.start, .admission, .stop])
    #expect(try desk.verify().problems == [])
  }

  @Test func `a file that ends by a rotation and lies at its place goes on`() throws {
    let desk = try Desk(), former = desk.writer("p1")
    desk.attach(former)
    rename(desk.path, desk.scene.path("audit.log.1"))
    try desk.file.reopen()
    former.close()
    rename(desk.scene.path("audit.log.1"), desk.path)
    let next = desk.writer("p2")
    next.attach(
      try LogFile(opening: desk.path, isRead: true), AuditSettings(path: desk.path), nil, ErrorLog([]),
      first: AuditEvent(.start, at: 0))
    next.close()
    #expect(desk.kinds() == [.start, .rotate, .start, .stop])
    #expect(try desk.verify().problems == [])
  }

  @Test func `a line that a crash has cut is ended, and the chain goes on`() throws {
    let desk = try Desk(), first = desk.writer("p1")
    desk.attach(first)
    first.close()
    _ = try desk.scene.write("audit.log", text: desk.scene.text("audit.log") + "{\"n\":3,\"ti")
    let next = desk.writer("p2"), file = try LogFile(opening: desk.path, isRead: true)
    next.attach(file, AuditSettings(path: desk.path), nil, ErrorLog([]), first: AuditEvent(.start, at: 0))
    next.close()
    let verification = try desk.verify()
    #expect(verification.problems == [] && verification.gaps.map(\.line) == [3])
    #expect(desk.kinds() == [.start, .stop, nil, .recovered, .start, .stop])
  }

  @Test func `rotation goes on in the next file`() throws {
    let desk = try Desk(), writer = desk.writer()
    desk.attach(writer)
    writer.take(event)
    rename(desk.path, desk.scene.path("audit.log.1"))
    try desk.file.reopen()
    writer.take(event)
    writer.close()
    #expect(desk.kinds("audit.log.1") == [.start, .admission, .rotate])
    #expect(desk.kinds() == [.resume, .admission, .stop])
    let verification = try desk.verify(["audit.log.1", "audit.log"])
    #expect(verification.problems == [] && verification.gaps == [])
    #expect(try desk.verify(["audit.log", "audit.log.1"]).gaps.isEmpty == false)
  }

  @Test func `the chain is signed at a rotation and at the end, and each time that is due`() async throws {
    let desk = try Desk(), writer = desk.writer()
    let fresh = try PrivateKey.generate(.ed25519)
    let file = try MaterialReference(
      parsing: desk.scene.write("audit.key", fresh.pem.withUnsafeBytes { Array($0) }), relativeTo: "")
    let shown = try MaterialReference(
      parsing: desk.scene.write("audit.pub", fresh.publicKey.subjectPublicKeyInfo), relativeTo: "")
    let (own, check) = try (
      SignatureKey.load(file, .ed25519, to: .sign), SignatureKey.load(shown, .ed25519, to: .verify)
    )
    var settings = AuditSettings(path: desk.path)
    settings.every = 1
    desk.attach(writer, settings, own)
    try await until("a signature") { desk.kinds().contains(.signature) }
    writer.take(event)
    writer.close()
    #expect(desk.kinds().suffix(2) == [.stop, .signature])
    let verification = try desk.verify(keys: [check])
    #expect(verification.problems == [] && verification.unsigned == 0 && verification.signatures >= 2)
  }

  @Test func `events without room are counted, and a line says how many`() throws {
    let desk = try Desk(), writer = desk.writer()
    for _ in 0..<AuditWriter.limit + 3 { writer.take(event) }
    desk.attach(writer)
    writer.close()
    let verification = try desk.verify()
    #expect(verification.problems == [])
    #expect(
      verification.gaps.map(\.words) == ["3 events before this line were not written: there was no room for them"])
    #expect(verification.lines == AuditWriter.limit + 3)
  }

  @Test func `a file that somebody cuts under the process is told of, and the check finds the place`() async throws {
    let desk = try Desk(), writer = desk.writer()
    desk.attach(writer)
    for _ in 0..<4 { writer.take(event) }
    try await until("the lines") { desk.kinds().count == 5 }
    let kept = desk.scene.text("audit.log").split(separator: "\n").dropLast(2).map { "\($0)\n" }.joined()
    truncate(desk.path, off_t(kept.utf8.count))
    writer.take(event)
    writer.close()
    #expect(
      desk.shared.ongoing.current.contains { $0.kind == .log && $0.words.contains("was changed by somebody else") })
    #expect(
      try desk.verify().problems.map(\.words) == [
        "lines 4 to 5 of the log are missing: they were removed, or stand elsewhere"
      ])
  }

  @Test func `a line that somebody adds under the process is told of, unless it goes on where the chain ends`()
    async throws
  {
    let desk = try Desk(), writer = desk.writer()
    desk.attach(writer)
    try await until("the line") { desk.kinds() == [.start] }
    var chain = AuditChain(number: 1, hash: [UInt8](repeating: 7, count: 32))
    let other = try LogFile(opening: desk.path)
    chain.line(event, by: "p9").withUnsafeBytes { other.write($0) }
    writer.take(event)
    writer.close()
    #expect(desk.shared.ongoing.current.contains { $0.words.contains("a line was added") })
    #expect(try desk.verify().problems.count == 2)
  }

  @Test func `a disk that is full costs no line, and the log goes on`() async throws {
    guard access("/dev/full", W_OK) == 0 else { return }
    let desk = try Desk(), writer = AuditWriter("/dev/full", process: "p", desk.shared)
    let full = try LogFile(opening: "/dev/full", isRead: true)
    writer.attach(full, AuditSettings(path: "/dev/full"), nil, ErrorLog([]), first: event)
    try await until("the fault") { desk.shared.ongoing.current.contains { $0.name == "/dev/full" } }
    // With `required`, nobody gets in now.
    try await until("the refusal") { !writer.take(event) }
    #expect(desk.shared.ongoing.current.allSatisfy { !$0.isFatal && !$0.words.contains("nobody gets in") })
    // A reload that asks for it.
    writer.attach(full, AuditSettings(path: "/dev/full", isRequired: true), nil, ErrorLog([]), first: event)
    let fault = try #require(desk.shared.ongoing.current.first { $0.name == "/dev/full" })
    #expect(fault.isFatal && fault.words.hasSuffix("; nobody gets in meanwhile (required)"), "\(fault.words)")
    for _ in 0..<2 { writer.clientWasTurnedAway() }
    try await until("the number of clients") {
      desk.shared.ongoing.current.contains { $0.isFatal && $0.words.hasSuffix("(required): 2 clients so far") }
    }
    writer.close()
  }
}

private let server = "listen 443 ssl; ssl_certificate a.p12; return 204;"

@Suite struct `An audit log, as configured` {
  static let faults: [(lines: String, problem: String)] = [
    ("audit_log a.log every=0s;", "1:24 invalid time \"every=0s\" | every=1s to every=24h"),
    ("audit_log a.log size=1;", "1:24 "),
    ("audit_log $host.log;", "1:18 \"audit_log\" takes the name of a file, without variables | audit_log audit.log;"),
  ]

  @Test(arguments: faults) func `what can't be meant has its place`(lines: String, problem: String) {
    let problems = LoadedText("http { \(lines) server { \(server) } }").problems
    #expect(problems.count == 1 && problems.first?.hasPrefix(problem) == true, "\(problems)")
  }

  @Test func `servers inherit the line, a server has another file or none, and one file has one key`() throws {
    let text = """
      http { audit_log a.log key=a.key every=5s required;
        server { \(server) } server { listen 444; audit_log off; return 204; }
        server { listen 445; audit_log b.log; return 204; } }
      stream { server { listen 446; audit_log a.log key=a.key every=5s required; return x; } }
      """
    let loaded = LoadedText(text)
    #expect(loaded.problems == [])
    let http = try #require(loaded.settings?.http), files = http[AuditLog.Files.self]
    #expect(files.all.keys.sorted() == ["/etc/a.log", "/etc/b.log"] && files.digest.count == 32)
    #expect(files.all["/etc/a.log"]?.every == 5000 && files.all["/etc/a.log"]?.isRequired == true)
    #expect(
      http.servers.map { $0.root[AuditLog.self]?.settings.path } == ["/etc/a.log", nil, "/etc/b.log", "/etc/a.log"])
    #expect(http.watchedFiles.contains("/etc/a.key"))
    // Comments and blanks are no other configuration.
    let same = LoadedText("# comment\n" + text.replacing("    ", with: " "))
    #expect(same.settings?.http[AuditLog.Files.self].digest == files.digest)
    let other = LoadedText(text.replacing("return 204", with: "return 403"))
    #expect(other.settings?.http[AuditLog.Files.self].digest != files.digest)
    let two = LoadedText(text.replacing("audit_log b.log", with: "audit_log a.log"))
    #expect(two.problems.count >= 1 && two.problems.allSatisfy { $0.contains("says something else than another line") })
  }
}
