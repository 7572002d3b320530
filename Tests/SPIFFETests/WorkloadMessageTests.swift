import Bytes
import Crypto
import TestSupport
import Testing

@testable import SPIFFE

@Suite struct `Messages of the Workload API` {
  private let domain: TestTrustDomain
  private let other: TestTrustDomain
  private let id = "spiffe://example.org/ns/prod/sa/web"

  init() throws {
    domain = try TestTrustDomain()
    other = try TestTrustDomain("other.test")
  }

  /// The reason for which a message is refused.
  private func refusal(_ message: WorkloadMessage) -> String? {
    do throws(WorkloadFault) {
      _ = try WorkloadMaterial(message.bytes)
      return nil
    } catch {
      return error.reason
    }
  }

  @Test func `give identities, bundles and federated bundles`() throws {
    let svid = try domain.svid()
    let material = try WorkloadMaterial(WorkloadMessage(svid, id, of: domain, federated: [other]).bytes)
    #expect(material.svids.map(\.id.description) == [id])
    #expect(material.svids[0].pair.certificate == svid.certificate)
    #expect(material.bundles.keys.sorted().map(\.name) == ["example.org", "other.test"])
    #expect(material.bundles[try TrustDomain(name: Array("other.test".utf8))]?.authorities == [other.root.certificate])
    guard case .usable(let found) = material.find(try SPIFFEID(parsing: id)) else {
      Issue.record("it was not found")
      return
    }
    #expect(found.pair.certificate == svid.certificate)
    guard case .unknown = material.find(try SPIFFEID(parsing: id + "2")) else {
      Issue.record("it was found")
      return
    }
  }

  @Test func `are the same only if they have the same certificates`() throws {
    let svid = try domain.svid()
    let message = WorkloadMessage(svid, id, of: domain, federated: [other])
    let digest = try WorkloadMaterial(message.bytes).digest
    #expect(try WorkloadMaterial(message.bytes).digest == digest)
    #expect(try WorkloadMaterial(WorkloadMessage(svid, id, of: domain).bytes).digest != digest)
    #expect(
      try WorkloadMaterial(WorkloadMessage(domain.svid(), id, of: domain, federated: [other]).bytes).digest != digest)
  }

  @Test func `may have fields that are not known yet`() throws {
    var message = WorkloadMessage(try domain.svid(), id, of: domain)
    message.add(99, [1, 2, 3])
    // 16: a number, 17: eight bytes, 18: four bytes.
    message.bytes += WorkloadMessage.varint(16 << 3) + [0xFF, 0x01]
    message.bytes += WorkloadMessage.varint(17 << 3 | 1) + [UInt8](repeating: 7, count: 8)
    message.bytes += WorkloadMessage.varint(18 << 3 | 5) + [UInt8](repeating: 7, count: 4)
    #expect(refusal(message) == nil)
  }

  @Test func `without an identity, a bundle or a chain are refused`() throws {
    let svid = try domain.svid()
    #expect(refusal(WorkloadMessage()) == "no SVID is in it")
    var message = WorkloadMessage()
    message.add(svid, id, bundle: [])
    #expect(refusal(message) == "the bundle of spiffe://example.org is empty")
    message = WorkloadMessage()
    message.add(
      1, WorkloadMessage.field(1, Array(id.utf8)) + WorkloadMessage.field(4, domain.root.certificate.der))
    #expect(refusal(message) == "the chain of \(id) is empty")
  }

  @Test func `have the right key, the right ID and no CA among the identities`() throws {
    let svid = try domain.svid()
    var message = WorkloadMessage()
    message.add(svid, id, bundle: [domain.root.certificate], key: try .generate())
    #expect(refusal(message) == "the key of \(id) does not belong to its certificate")
    message = WorkloadMessage()
    message.add(svid, id + "2", bundle: [domain.root.certificate])
    #expect(refusal(message) == "the certificate of \(id)2 is for \(id)")
    message = WorkloadMessage()
    let authority = try domain.svid(purpose: .authority(pathLength: nil))
    message.add(authority, id, bundle: [domain.root.certificate])
    #expect(refusal(message)?.hasSuffix("it is a CA's certificate, which shows no identity") == true)
    message = WorkloadMessage()
    let two = try domain.svid(uris: [id, "spiffe://example.org/admin"])
    message.add(two, id, bundle: [domain.root.certificate])
    #expect(refusal(message)?.contains("it has 2 URIs") == true)
  }

  @Test func `have no leaf in a bundle, which would be trusted as itself`() throws {
    let svid = try domain.svid()
    var message = WorkloadMessage()
    message.add(svid, id, bundle: [domain.root.certificate, svid.certificate])
    #expect(refusal(message)?.hasPrefix("the bundle of spiffe://example.org has a certificate that is no CA") == true)
  }

  @Test func `have no federated bundle that speaks for the own trust domain`() throws {
    var message = WorkloadMessage(try domain.svid(), id, of: domain)
    message.add(federated: "spiffe://example.org", [other.root.certificate])
    #expect(
      refusal(message) == "a federated bundle speaks for spiffe://example.org, the process's own trust domain")
  }

  @Test(arguments: ["other.test", "spiffe://other.test/web", "spiffe://Other.test", "", "https://other.test"])
  func `have trust domains as the keys of federated bundles`(key: String) throws {
    var message = WorkloadMessage(try domain.svid(), id, of: domain)
    message.add(federated: key, [other.root.certificate])
    #expect(refusal(message)?.hasPrefix("the key of a federated bundle is no trust domain") == true)
  }

  @Test func `may have an empty federated bundle, which lets nobody in`() throws {
    var message = WorkloadMessage(try domain.svid(), id, of: domain)
    message.add(federated: "spiffe://other.test", [])
    let material = try WorkloadMaterial(message.bytes)
    #expect(material.bundles[try TrustDomain(name: Array("other.test".utf8))]?.authorities == [])
  }

  @Test func `are bounded in their counts`() throws {
    let svid = try domain.svid()
    var message = WorkloadMessage(svid, id, of: domain)
    for _ in 0...X509SVIDResponse.Limits.federated { message.add(federated: "spiffe://other.test", []) }
    #expect(refusal(message) == "more than 1024 federated bundles")
    message = WorkloadMessage()
    for _ in 0...X509SVIDResponse.Limits.svids { message.add(1, []) }
    #expect(refusal(message) == "more than 64 SVIDs")
    message = WorkloadMessage()
    message.add(
      svid, id,
      bundle: Array(repeating: domain.root.certificate, count: X509SVIDResponse.Limits.certificatesOfBundle + 1))
    #expect(refusal(message) == "the bundle of spiffe://example.org has more than 256 certificates")
  }

  @Test func `that end anywhere are refused`() throws {
    let svid = try domain.svid()
    let whole = WorkloadMessage(svid, id, of: domain, federated: [other]).bytes
    // The end of the first field is the end of a message without federated bundles.
    let boundary = WorkloadMessage(svid, id, of: domain).bytes.count
    for count in stride(from: 0, to: whole.count, by: 7) where count != boundary {
      #expect(throws: WorkloadFault.self) { try WorkloadMaterial(Array(whole.prefix(count))) }
    }
  }

  @Test(arguments: FuzzInput.all(of: "FuzzWorkload"))
  func `that a fuzzer found are read without a trap`(input: FuzzInput) {
    _ = try? WorkloadMaterial(input.bytes)
  }
}

/// Each part by its own rule, beside what the same agent gave before.
@Suite struct `Later messages of the Workload API` {
  private let domain: TestTrustDomain
  private let other: TestTrustDomain
  private let id = "spiffe://example.org/ns/prod/sa/web"
  private let own: TrustDomain
  private let foreign: TrustDomain

  init() throws {
    domain = try TestTrustDomain()
    other = try TestTrustDomain("other.test")
    own = try TrustDomain(name: Array("example.org".utf8))
    foreign = try TrustDomain(name: Array("other.test".utf8))
  }

  /// Whether one of the bundle's authorities has issued the SVID.
  private func take(_ message: WorkloadMessage, after former: WorkloadMaterial? = nil) throws -> WorkloadMaterial {
    try WorkloadMaterial(message.bytes, after: former) { svid, bundle in
      bundle.authorities.contains { $0.issued(svid.pair.certificate) } ? nil : WorkloadFault("no chain")
    }
  }

  private func shown(_ material: WorkloadMaterial) -> Certificate? {
    guard case .usable(let svid) = material.find(nil) else { return nil }
    return svid.pair.certificate
  }

  @Test func `take trust away at once, and the own identity with it where it is not of the new bundle`() throws {
    let svid = try domain.svid(), next = try TestTrustDomain()
    var message = WorkloadMessage()
    message.add(svid, id, bundle: [domain.root.certificate, next.root.certificate])
    let former = try take(message)
    message = WorkloadMessage()
    message.add(svid, id, bundle: [next.root.certificate])
    let material = try take(message, after: former)
    #expect(material.bundles[own]?.authorities == [next.root.certificate])
    guard case .unusable("no chain") = material.find(nil) else {
      Issue.record("the identity is used")
      return
    }
    #expect(material.faults == ["no chain: handshakes that need this identity are refused"])
    #expect(material.digest != former.digest)
    // Another identity of the process never takes its place.
    message.add(try next.svid("/other"), "spiffe://example.org/other", bundle: [next.root.certificate])
    #expect(shown(try take(message, after: former)) == nil)
    message = WorkloadMessage()
    let renewed = try next.svid()
    message.add(renewed, id, bundle: [next.root.certificate])
    let whole = try take(message, after: material)
    #expect(whole.faults.isEmpty && shown(whole) == renewed.certificate)
  }

  @Test func `keep a valid identity before one that has ended, is broken, or has no chain`() throws {
    let svid = try domain.svid(), former = try take(WorkloadMessage(svid, id, of: domain))
    var messages = [WorkloadMessage(try domain.svid(seconds: -1), id, of: domain)]
    var message = WorkloadMessage()
    message.add(try domain.svid(), id, bundle: [domain.root.certificate], key: try .generate())
    messages.append(message)
    message = WorkloadMessage()
    message.add(try TestTrustDomain().svid(), id, bundle: [domain.root.certificate])
    messages.append(message)
    for message in messages {
      var message = message
      message.add(federated: "spiffe://other.test", [other.root.certificate])
      let material = try take(message, after: former)
      #expect(shown(material) == svid.certificate)
      #expect(material.faults.count == 1 && material.faults[0].hasSuffix(": the former one stays"))
      #expect(material.bundles[foreign]?.authorities == [other.root.certificate])
    }
    // One that has ended is no better than another one that has.
    let ended = try take(WorkloadMessage(try domain.svid(seconds: -60), id, of: domain))
    let later = try domain.svid(seconds: -1)
    let material = try take(WorkloadMessage(later, id, of: domain), after: ended)
    #expect(shown(material) == later.certificate && material.faults.isEmpty)
  }

  @Test func `keep a bundle before a broken one, and take the others`() throws {
    let svid = try domain.svid(), third = try TestTrustDomain("third.test")
    let former = try take(WorkloadMessage(svid, id, of: domain, federated: [other, third]))
    var message = WorkloadMessage(svid, id, of: domain)
    // A leaf in a bundle; and the other federated bundle is gone.
    message.add(federated: "spiffe://other.test", [try other.svid().certificate])
    var material = try take(message, after: former)
    #expect(material.bundles[foreign]?.authorities == [other.root.certificate])
    #expect(material.bundles.count == 2 && material.faults.count == 1)
    #expect(material.faults[0].hasSuffix("the bundle that was in use stays"))
    message = WorkloadMessage()
    message.add(svid, id, bundle: [])
    message.add(federated: "spiffe://other.test", [])
    material = try take(message, after: former)
    #expect(material.bundles[own]?.authorities == [domain.root.certificate])
    #expect(material.bundles[foreign]?.authorities == [])
    // Nobody speaks for the own trust domain but its own entry.
    message = WorkloadMessage(svid, id, of: domain)
    message.add(federated: "spiffe://example.org", [other.root.certificate])
    material = try take(message, after: former)
    #expect(material.bundles[own]?.authorities == [domain.root.certificate] && material.faults.count == 1)
    #expect(material.bundles.count == 1)
  }

  @Test func `keep a revocation list before a broken, an ended and an older one`() throws {
    let svid = try domain.svid()
    func message(_ lists: [RevocationListBuilder], garbage: Bool = false) throws -> WorkloadMessage {
      var message = WorkloadMessage(svid, id, of: domain)
      for list in lists {
        let pem = try list.pem(signedBy: domain.root)
        message.add(2, try Base64.decode(pem.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()))
      }
      if garbage { message.add(2, [1, 2, 3]) }
      return message
    }
    func numbers(_ material: WorkloadMaterial) -> [Int?] {
      (material.bundles[own]?.revocations ?? []).map { $0.number?.value }
    }
    let revoked = try domain.svid("/bob").certificate
    let former = try take(message([RevocationListBuilder(revoking: [revoked], number: 5)]))
    #expect(numbers(former) == [5])
    let broken = try take(message([], garbage: true), after: former)
    #expect(numbers(broken) == [5] && broken.faults.count == 1)
    #expect(try numbers(take(message([RevocationListBuilder(revoking: [], number: 4)]), after: former)).contains(5))
    var ended = RevocationListBuilder(revoking: [], number: 6)
    ended.nextUpdate = ended.thisUpdate + 1
    #expect(try numbers(take(message([ended]), after: former)).contains(5))
    let newer = try take(message([RevocationListBuilder(revoking: [], number: 7)], garbage: true), after: former)
    #expect(numbers(newer) == [7])
    // The agent says all that counts: a list that is gone counts no more.
    #expect(try numbers(take(message([]), after: former)).isEmpty)
  }
}

@Suite struct `Frames of gRPC` {
  private func cut(_ bytes: [UInt8], size: Int) throws(WorkloadFault) -> [[UInt8]] {
    var frames = GRPCFrames()
    var messages: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let part = Array(rest.prefix(size))
      messages += try part.withUnsafeBufferPointer { (part) throws(WorkloadFault) in
        try frames.take(UnsafeRawBufferPointer(part))
      }
      rest = rest.dropFirst(size)
    }
    return messages
  }

  @Test(arguments: [1, 2, 5, 6, 1000])
  func `are the same messages in any pieces`(size: Int) throws {
    let messages: [[UInt8]] = [[], [1], Array(0...200), []]
    #expect(try cut(messages.flatMap { GRPCFrames.frame($0) }, size: size) == messages)
  }

  @Test func `that announce a message of 100 MB are refused by their heads`() {
    let length = UInt32(100 << 20)
    let head = [0] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) }
    #expect(throws: WorkloadFault.self) { try cut(head, size: 5) }
    #expect(throws: WorkloadFault.self) { try cut([1, 0, 0, 0, 0], size: 5) }
  }

  @Test(arguments: [
    ("0", GRPCStatus.ok), ("3", .invalidArgument), ("7", .permissionDenied), ("14", .unavailable), ("2", .other(2)),
  ])
  func `end with a status`(text: String, status: GRPCStatus) {
    #expect(Array(text.utf8).withUnsafeBytes { GRPCStatus($0) } == status)
  }

  @Test(arguments: ["", "-1", "100", "x", " 7"])
  func `end with nothing else`(text: String) {
    #expect(Array(text.utf8).withUnsafeBytes { GRPCStatus($0) } == nil)
  }
}

@Suite struct `Certificates in a row` {
  @Test func `are cut at their lengths`() throws {
    let certificates = try [TestTrustDomain("a").root, TestTrustDomain("b").root].map(\.certificate)
    let parts = try ConcatenatedDER.split(certificates.flatMap(\.der), limit: 2, of: "it")
    #expect(parts.map { Array($0) } == certificates.map(\.der))
    #expect(throws: WorkloadFault.self) { try ConcatenatedDER.split(certificates.flatMap(\.der), limit: 1, of: "it") }
  }

  @Test(arguments: [[0x30], [0x31, 0], [0x30, 0x80], [0x30, 0x84, 0, 0, 0, 1, 0], [0x30, 5, 1], [0x30, 0x82, 1]])
  func `with a length that is none are refused`(bytes: [UInt8]) {
    #expect(throws: WorkloadFault.self) { try ConcatenatedDER.split(bytes, limit: 9, of: "it") }
  }
}
