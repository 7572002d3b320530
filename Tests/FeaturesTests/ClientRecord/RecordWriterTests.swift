import Crypto
import Foundation
import TestSupport
import Testing

@testable import Features

@Suite struct `The file of a record of clients` {
  private let folder = NSTemporaryDirectory() + "sallyport-record-\(UUID().uuidString.prefix(13))"
  private let authority: TestAuthority

  init() throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    authority = try TestAuthority()
  }

  private var path: String { "\(folder)/clients.record" }

  private func writer(days: Int = 30, limit: Int = 1000) -> RecordWriter {
    RecordWriter(path, RecordWriter.Bounds(days: days, limit: limit))
  }

  private func seen(
    _ name: String, at moment: Int64, _ verdict: RecordedVerdict = .verified, to server: String = "a.test"
  ) throws -> SeenVisit {
    seen([try authority.client(commonName: name).certificate], at: moment, verdict, to: server)
  }

  private func seen(
    _ certificates: [Certificate], at moment: Int64, _ verdict: RecordedVerdict = .verified,
    to server: String = "a.test"
  ) -> SeenVisit {
    var visit = RecordedVisit(at: moment, verdict)
    visit.count(at: moment, verdict, reason: "", isResumed: false)
    return SeenVisit(certificates: certificates, listener: "*:443", name: server, isStream: false, visit: visit)
  }

  private func read() throws -> RecordedClients {
    try RecordedClients(reading: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
  }

  private var size: Int { (try? Data(contentsOf: URL(fileURLWithPath: path)).count) ?? -1 }

  @Test func `a start makes the file, which its user alone can read`() throws {
    var writer = writer()
    try writer.write(now: 1000)
    #expect(try read() == RecordedClients())
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
  }

  @Test func `who is new stands in the file at once, and who is known waits`() throws {
    var writer = writer()
    try writer.write(now: 1000)
    let alice = try authority.client().certificate
    writer.add([seen([alice], at: 1001)])
    try writer.write(now: 1001)
    #expect(try read().visits.values.map(\.admitted) == [1])
    let before = size
    writer.add([seen([alice], at: 1002)])
    try writer.write(now: 1002)
    #expect(size == before)
    // Somebody new doesn't take along who is known.
    writer.add([try seen("bob", at: 1003)])
    try writer.write(now: 1003)
    #expect(try read().visits.values.map(\.last).sorted() == [1001, 1003])
    try writer.write(now: 1000 + RecordWriter.patience)
    #expect(try read().visits.values.map(\.last).sorted() == [1002, 1003])
    #expect(try read().visits.values.map(\.admitted).sorted() == [1, 2])
  }

  @Test func `who comes behind any number of fronts and names takes a bounded number of lines`() throws {
    var writer = writer()
    let alice = try authority.client().certificate
    for index in 0..<40 {
      var relayed = seen([alice], at: 1001, to: "a\(index % 3).test")
      relayed.front = "CN=lb-\(index)"
      writer.add([relayed])
      try writer.write(now: 1001)
    }
    writer.add([seen([alice], at: 1002)])
    try writer.write(now: 1002, isLast: true)
    let visits = try read().visits
    #expect(visits.keys.filter { !$0.front.isEmpty }.count == RecordWriter.mostNames)
    // Who comes itself is none of them.
    #expect(visits.first { $0.key.front.isEmpty }?.value.admitted == 1)
    #expect(visits.values.reduce(0) { $0 + $1.admitted } == 41)
  }

  @Test func `a changed verdict, and the end of the process, wait for nothing`() throws {
    var writer = writer()
    try writer.write(now: 1000)
    let alice = try authority.client().certificate
    writer.add([seen([alice], at: 1001)])
    try writer.write(now: 1001)
    writer.add([seen([alice], at: 1002, .refused)])
    try writer.write(now: 1002)
    #expect(try read().visits.values.map(\.verdict) == [.refused])
    writer.add([seen([alice], at: 1003, .refused)])
    try writer.write(now: 1003, isLast: true)
    #expect(try read().visits.values.map(\.refused) == [2])
  }

  @Test func `the next process goes on, after a line that was torn, too`() throws {
    var first = writer()
    try first.write(now: 1000)
    first.add([try seen("alice", at: 1001)])
    try first.write(now: 1001)
    let handle = try #require(FileHandle(forWritingAtPath: path))
    try handle.seekToEnd()
    try handle.write(contentsOf: Data("{\"certifi".utf8))
    try handle.close()
    var second = writer()
    second.add([try seen("bob", at: 1002)])
    try second.write(now: 1002)
    #expect(try read().visits.count == 2)
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)).last == 0x0A)
  }

  @Test func `a file that is no record is set aside, and told of once`() throws {
    try Data("something else\n".utf8).write(to: URL(fileURLWithPath: path))
    var writer = writer()
    writer.add([try seen("alice", at: 1001)])
    try writer.write(now: 1001)
    #expect(try read().visits.count == 1)
    let damage = writer.takeDamage() ?? ""
    #expect(damage.contains("clients.record.damaged") && damage.contains("no record of clients"))
    #expect(writer.takeDamage() == nil)
    #expect(FileManager.default.fileExists(atPath: path + ".damaged"))
  }

  @Test func `what can't be written waits, and stands in the file when it can`() throws {
    var writer = writer()
    try FileManager.default.removeItem(atPath: folder)
    writer.add([try seen("alice", at: 1001)])
    #expect(throws: RecordWriter.Fault.self) { try writer.write(now: 1001) }
    writer.add([try seen("bob", at: 1002)])
    #expect(throws: RecordWriter.Fault.self) { try writer.write(now: 1002) }
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try writer.write(now: 1003)
    #expect(try read().visits.count == 2)
  }

  @Test func `a file that somebody removes, or that another process writes, costs nothing that comes later`() throws {
    var writer = writer(), other = self.writer()
    try writer.write(now: 1000)
    try other.write(now: 1000)
    writer.add([try seen("alice", at: 1001)])
    try writer.write(now: 1001)
    other.add([try seen("bob", at: 1002)])
    try other.write(now: 1002)
    #expect(try read().visits.count == 2)
    // Alice comes again, and waits, when the file with her certificate goes.
    let alice = try authority.client().certificate
    writer.add([seen([alice], at: 1003)])
    try writer.write(now: 1003)
    writer.add([seen([alice], at: 1004)])
    try writer.write(now: 1004)
    try FileManager.default.removeItem(atPath: path)
    writer.add([try seen("carol", at: 1005)])
    try writer.write(now: 1005)
    #expect(try read().visits.values.map(\.last) == [1005])
  }

  @Test func `strangers fill no record, and cost nobody who was let in his place`() throws {
    var writer = writer(limit: 80)
    try writer.write(now: 1000)
    let key = try PrivateKey.generate()
    for turn in 0..<20 {
      let strangers = try (0..<20).map { index in
        seen(
          [try CertificateBuilder(commonName: "stranger \(turn) \(index)", .leaf([])).selfSigned(key: key).certificate],
          at: 1001, .refused)
      }
      writer.add(strangers)
      try writer.write(now: 1001)
    }
    writer.add([try seen("alice", at: 1002)])
    try writer.write(now: 1002)
    #expect(writer.takeLost() == 380)
    #expect(try read().chains == 21)
    try writer.write(now: 1002 + RecordWriter.pause)
    #expect(try read().chains == 11)
    #expect(try read().visits.values.contains { $0.verdict == .verified })
  }

  @Test func `a client that invents names has a bounded number of visits`() throws {
    var writer = writer()
    try writer.write(now: 1000)
    let alice = try authority.client().certificate
    for index in 0..<100 {
      writer.add([seen([alice], at: 1001, to: "n\(index).test")])
      try writer.write(now: 1001, isLast: true)
    }
    let record = try read()
    #expect(record.visits.count == RecordWriter.mostNames)
    #expect(record.visits.values.reduce(0) { $0 + $1.admitted } == 100)
  }

  @Test func `days pass, and who has not come is forgotten`() throws {
    var writer = writer(days: 1)
    try writer.write(now: 1000)
    writer.add([try seen("alice", at: 1001)])
    try writer.write(now: 1001)
    writer.add([try seen("bob", at: 80_000)])
    try writer.write(now: 80_000)
    try writer.write(now: 1001 + 86_400 + 1)
    #expect(try read().visits.values.map(\.last) == [80_000])
  }
}
