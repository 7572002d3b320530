import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import Audit

/// A log as a process writes it, line by line, without line feeds.
private func log(_ count: Int, key: SignatureKey? = nil, stops: Bool = true, process: String = "p1") -> [[UInt8]] {
  var chain = AuditChain(), lines: [[UInt8]] = []
  func add(_ bytes: [UInt8]) { lines.append(bytes.dropLast()) }
  add(chain.line(AuditEvent(.start, at: 0), by: process))
  for index in 0..<count {
    var event = AuditEvent(.admission, at: Int64(index) * 1000)
    event.add("subject", "CN=client\(index)")
    event.add("verdict", "let_in")
    add(chain.line(event, by: process))
  }
  if stops { add(chain.line(AuditEvent(.stop, at: 9), by: process)) }
  if let key, let line = chain.signature(by: key, at: 10, process: process) { add(line) }
  return lines
}

private func verify(
  _ files: [[[UInt8]]], keys: [SignatureKey] = [], expecting: [UInt8]? = nil
) -> AuditVerification {
  var verification = AuditVerification(keys: keys)
  for (index, file) in files.enumerated() {
    verification.begin(file: "f\(index)")
    for line in file { verification.take(line) }
  }
  verification.finish(expecting: expecting)
  return verification
}

private func problems(_ lines: [[UInt8]], keys: [SignatureKey] = []) -> [String] {
  verify([lines], keys: keys).problems.map(\.description)
}

private func key(_ scene: Scene, _ name: String) throws -> (sign: SignatureKey, verify: SignatureKey) {
  let fresh = try PrivateKey.generate(.ed25519)
  let path = try scene.write("\(name).key", fresh.pem.withUnsafeBytes { Array($0) })
  let shown = try scene.write("\(name).pub", fresh.publicKey.subjectPublicKeyInfo)
  return try (
    .load(MaterialReference(parsing: path, relativeTo: ""), .ed25519, to: .sign),
    .load(MaterialReference(parsing: shown, relativeTo: ""), .ed25519, to: .verify)
  )
}

@Suite struct `The chain of an audit log` {
  @Test func `a line is JSON, and has the SHA-256 of the one before`() throws {
    let lines = log(1)
    let text = lines.map { String(decoding: $0, as: UTF8.self) }
    #expect(
      text[0]
        == "{\"n\":1,\"time\":\"1970-01-01T00:00:00.000Z\",\"process\":\"p1\",\"event\":\"start\",\"prev\":\"\(String(repeating: "0", count: 64))\"}"
    )
    #expect(text[1].hasSuffix("\"prev\":\"\(Hex.encode(Digest.of(lines[0])))\"}"))
    #expect(AuditTime.text(1_764_469_461_123) == "2025-11-30T02:24:21.123Z")
  }

  @Test func `a whole log has no problem, and no gap if its process stopped`() {
    let verification = verify([log(20)])
    #expect(verification.problems == [] && verification.gaps == [])
    #expect(verification.lines == 22 && verification.first == 1 && verification.end?.number == 22)
  }

  @Test func `a changed line is found at its place`() {
    var lines = log(5)
    lines[2] = Array(String(decoding: lines[2], as: UTF8.self).replacing("client1", with: "clientX").utf8)
    #expect(problems(lines) == ["f0:3: the line was changed: the next one has the SHA-256 of another text"])
  }

  @Test func `each byte of each line but the last counts`() {
    let lines = log(3)
    for index in lines.indices.dropLast() {
      for byte in lines[index].indices {
        var changed = lines
        changed[index][byte] ^= 1
        #expect(!problems(changed).isEmpty, "line \(index), byte \(byte)")
      }
    }
  }

  @Test func `a removed line is found, and how many`() {
    var lines = log(6)
    lines.remove(at: 3)
    #expect(
      problems(lines) == ["f0:4: line 4 of the log is missing: it was removed, or stands elsewhere"])
    lines.remove(at: 3)
    #expect(problems(lines).first?.hasPrefix("f0:4: lines 4 to 5 of the log are missing") == true)
  }

  @Test func `an inserted line is found, also one that hangs on the line before`() {
    var lines = log(4)
    var chain = AuditChain(number: 3, hash: Digest.of(lines[2]))
    lines.insert(Array(chain.line(AuditEvent(.admission, at: 1), by: "p1").dropLast()), at: 3)
    #expect(problems(lines) == ["f0:5: line 4 of the log stands behind line 4: it was inserted or moved"])
    var twice = log(4)
    twice.insert(twice[2], at: 3)
    #expect(problems(twice) == ["f0:4: line 3 of the log stands behind line 3: it was inserted or moved"])
  }

  @Test func `lines in another order are found`() {
    var lines = log(5)
    lines.swapAt(2, 3)
    #expect(
      problems(lines).prefix(2) == [
        "f0:3: line 3 of the log is missing: it was removed, or stands elsewhere",
        "f0:4: line 3 of the log stands behind line 4: it was inserted or moved",
      ])
  }

  @Test func `a cut end is a gap, and a problem for who knows the last hash`() {
    let lines = log(5), cut = Array(lines.dropLast(2))
    let plain = verify([cut])
    #expect(plain.problems == [])
    #expect(plain.gaps.map(\.words).first?.hasPrefix("process p1 has written no line that it stopped") == true)
    #expect(verify([lines], expecting: Digest.of(lines[6])).problems == [])
    let known = verify([cut], expecting: Digest.of(lines[6]))
    #expect(known.problems.map(\.line) == [5])
    #expect(known.problems.first?.words.hasPrefix("the log ends with line 5, whose SHA-256 is") == true)
  }

  @Test func `a line that its process could not end is a gap, if the next line says so`() {
    var lines = log(3, stops: false)
    var chain = AuditChain(number: 4, hash: Digest.of(lines[3]))
    var event = AuditEvent(.recovered, at: 0)
    event.add("octets", 4)
    lines.append(Array("{\"n\"".utf8))
    lines.append(Array(chain.line(event, by: "p2").dropLast()))
    lines.append(Array(chain.line(AuditEvent(.start, at: 0), by: "p2").dropLast()))
    lines.append(Array(chain.line(AuditEvent(.stop, at: 0), by: "p2").dropLast()))
    let verification = verify([lines])
    #expect(verification.problems == [])
    #expect(verification.gaps.map(\.line) == [5, 1])
    lines.remove(at: 5)
    #expect(problems(lines).first?.hasPrefix("f0:5: the line was changed or inserted: it is no JSON") == true)
  }

  @Test func `files go on where the one before ends, and a missing file is found`() {
    let lines = log(8)
    let files = [Array(lines[..<3]), Array(lines[3..<6]), Array(lines[6...])]
    #expect(verify(files).problems == [] && verify(files).gaps == [])
    #expect(verify([files[0], files[2]]).problems.first?.description.hasPrefix("f1:1: lines 4 to 6") == true)
    #expect(verify([files[1], files[2]]).problems == [])
    #expect(verify([files[1], files[2]]).gaps.first?.words.contains("its former files aren't given") == true)
    #expect(verify([files[1], files[0]]).gaps.contains { $0.words.hasPrefix("another chain begins") })
  }

  @Test func `lost events are told`() {
    var chain = AuditChain(), event = AuditEvent(.lost, at: 0)
    event.add("count", 17)
    let lines = [
      chain.line(AuditEvent(.start, at: 0), by: "p"), chain.line(event, by: "p"),
      chain.line(AuditEvent(.stop, at: 0), by: "p"),
    ].map { Array($0.dropLast()) }
    #expect(
      verify([lines]).gaps.map(\.description) == [
        "f0:2: 17 events before this line were not written: there was no room for them"
      ])
  }

  @Test func `a text is cut, so that a client's name can't make a line that nobody reads`() throws {
    var chain = AuditChain(), event = AuditEvent(.admission, at: 0)
    event.add("subject", String(repeating: "\u{7}\"", count: 100_000))
    let bytes = chain.line(event, by: "p")
    #expect(bytes.count < AuditLine.longest)
    #expect(try AuditLine(bytes.dropLast()).number == 1)
  }
}

@Suite struct `Signatures of an audit log` {
  @Test func `who has rewritten all lines has not the key`() throws {
    let scene = try Scene(), own = try key(scene, "own"), other = try key(scene, "other")
    let whole = verify([log(5, key: own.sign)], keys: [own.verify])
    #expect(whole.problems == [] && whole.gaps == [])
    let forged = log(5, key: other.sign)
    #expect(problems(forged, keys: [own.verify]).first?.hasPrefix("f0:8: the signature is of another key") == true)
    #expect(problems(log(5), keys: [own.verify]) == ["f0: no line is signed by a given key"])
    #expect(problems(forged) == [])
  }

  @Test func `a signature of another place is none`() throws {
    let scene = try Scene(), own = try key(scene, "own")
    let real = log(5, key: own.sign)
    var chain = AuditChain(number: 6, hash: Digest.of(real[5])), forged = Array(real[..<6])
    let text = String(decoding: real[7], as: UTF8.self)
    let signature = try #require(text.split(separator: "\"signature\":\"").last?.split(separator: "\"").first)
    var event = AuditEvent(.signature, at: 0)
    event.add("key", AuditChain.name(of: own.verify))
    event.add("signature", String(signature))
    forged.append(Array(chain.line(event, by: "p1").dropLast()))
    #expect(
      problems(forged, keys: [own.verify]).first
        == "f0:7: the signature is not that of its key: lines before it were changed")
  }

  @Test func `lines behind the last signature are counted`() throws {
    let scene = try Scene(), own = try key(scene, "own")
    var chain = AuditChain(), lines: [[UInt8]] = []
    for _ in 0..<3 { lines.append(Array(chain.line(AuditEvent(.admission, at: 0), by: "p").dropLast())) }
    let signature = chain.signature(by: own.sign, at: 0, process: "p")
    lines.append(Array(try #require(signature).dropLast()))
    for _ in 0..<2 { lines.append(Array(chain.line(AuditEvent(.admission, at: 0), by: "p").dropLast())) }
    let verification = verify([lines], keys: [own.verify])
    #expect(verification.signatures == 1 && verification.unsigned == 2)
  }
}

@Suite struct `The end of a file that a chain goes on from` {
  @Test func `is its last whole line, and what a crash has left`() throws {
    let text = log(3).reduce(into: [UInt8]()) { $0 += $1 + [0x0A] }
    #expect(try AuditTail(text, isWhole: true).last?.number == 5)
    #expect(try AuditTail(Array(text.suffix(700)), isWhole: false).last?.number == 5)
    let torn = try AuditTail(text + Array("{\"n\":6".utf8), isWhole: true)
    #expect(torn.last?.number == 5 && torn.torn == 6)
    #expect(try AuditTail([], isWhole: true).last == nil)
  }

  @Test func `is refused where it is none of an audit log`() {
    #expect(throws: AuditFault.self) { try AuditTail(Array("127.0.0.1 - - GET /\n".utf8), isWhole: true) }
    #expect(throws: AuditFault.self) { try AuditTail([UInt8](repeating: 0x61, count: 200_000), isWhole: false) }
  }

  @Test(arguments: FuzzInput.all(of: "FuzzAudit")) func `inputs of the fuzzer are read`(input: FuzzInput) {
    var verification = AuditVerification()
    verification.begin(file: "f")
    for line in input.bytes.split(separator: 0x0A, omittingEmptySubsequences: false) { verification.take(Array(line)) }
    verification.finish()
    #expect(verification.lines > 0)
    _ = try? AuditTail(input.bytes, isWhole: true)
  }
}
