import Bytes
import Crypto
import JSON
import Observability

/// Why bytes are not a record of clients.
package enum ClientRecordError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The first line is not that of a record.
  case foreign
  /// A later sallyport has written it.
  case later(version: Int64)
  case tooLarge
  /// A line, counted from 1.
  case malformed(line: Int, reason: String)

  package var description: String {
    switch self {
    case .foreign:
      "it is no record of clients: its first line must be {\"\(RecordedClients.mark)\":…}, as client_record writes it"
    case .later(let version):
      "it is a record of clients of version \(version), and this sallyport reads version \(RecordedClients.version): use the sallyport that has written it"
    case .tooLarge: "it has more than \(RecordedClients.largest >> 20) MiB, which client_record never writes"
    case .malformed(let line, let reason):
      "line \(line): \(reason); client_record writes one whole JSON object in each line"
    }
  }
}

/// A record of clients (`client_record`): each chain of certificates that clients have shown, and when and where they came.
///
/// The text has one JSON object in each line. The first line says the version. A line with a certificate stands before the
/// lines of visits that refer to it by its SHA-256. Several lines about one visit add up, so that a process appends what is
/// new, and so that records of several machines can be joined. A last line without its end is one that is being written.
/// Members and lines that this version doesn't know are passed over.
package struct RecordedClients: Sendable, Equatable {
  package static let mark = "sallyport_clients"
  package static let version: Int64 = 1
  package static let largest = 1 << 30
  /// The most octets of one certificate, and the most certificates of one chain.
  package static let longestCertificate = 128 << 10
  package static let longestChain = 64
  private static let longestLine = 192 << 10
  private static let longestText = 8192

  /// DER by its SHA-256.
  package private(set) var certificates: [[UInt8]: [UInt8]] = [:]
  package private(set) var visits: [RecordedVisit.Key: RecordedVisit] = [:]

  package init() {}

  /// The number of chains, each once.
  package var chains: Int { Set(visits.keys.map(\.chain)).count }

  package mutating func add(certificate der: [UInt8]) -> [UInt8] {
    let identity = Digest.of(der)
    certificates[identity] = der
    return identity
  }

  /// Adds visits of a chain whose certificates are there.
  package mutating func add(_ visit: RecordedVisit, of key: RecordedVisit.Key) {
    if visits[key]?.add(visit) == nil { visits[key] = visit }
  }

  mutating func remove(_ key: RecordedVisit.Key) { visits[key] = nil }

  /// What is left refers to certificates that stand elsewhere.
  mutating func removeCertificates() { certificates = [:] }

  /// Adds the record of another machine.
  package mutating func add(_ other: RecordedClients) {
    certificates.merge(other.certificates) { own, _ in own }
    for (key, visit) in other.visits { add(visit, of: key) }
  }

  /// The encodings of a chain's certificates, the leaf first.
  package func chain(_ key: RecordedVisit.Key) -> [[UInt8]] { key.chain.compactMap { certificates[$0] } }

  // MARK: Bounds

  /// Forgets who came last before `oldest` (seconds since 1970), visits whose certificates are missing, and all but `limit`
  /// chains: first those that were never let in beyond an eighth of the limit, then those that came longest ago.
  package mutating func prune(before oldest: Int64, limit: Int) {
    visits = visits.filter { key, visit in visit.last >= oldest && key.chain.allSatisfy { certificates[$0] != nil } }
    var chains: [[[UInt8]]: (last: Int64, isLetIn: Bool)] = [:]
    for (key, visit) in visits {
      let former = chains[key.chain]
      chains[key.chain] = (
        max(visit.last, former?.last ?? .min), visit.admitted > 0 || (former?.isLetIn ?? false)
      )
    }
    let kept = Self.kept(chains, limit)
    if kept.count < chains.count { visits = visits.filter { kept.contains($0.key.chain) } }
    let used = Set(kept.flatMap { $0 })
    certificates = certificates.filter { used.contains($0.key) }
  }

  /// How many chains that were never let in a record keeps: anybody can send as many as they like.
  package static func strangers(of limit: Int) -> Int { max(1, min(limit / 8, 4096)) }

  private static func kept(_ chains: [[[UInt8]]: (last: Int64, isLetIn: Bool)], _ limit: Int) -> Set<[[UInt8]]> {
    func latest(_ isLetIn: Bool, _ most: Int) -> [[[UInt8]]] {
      let some = chains.filter { $0.value.isLetIn == isLetIn }
      guard some.count > most else { return Array(some.keys) }
      return some.sorted { $0.value.last > $1.value.last }.prefix(max(0, most)).map(\.key)
    }
    let strangers = latest(false, Self.strangers(of: limit))
    return Set(strangers + latest(true, limit - strangers.count))
  }

  // MARK: Text

  package static let firstLine = "{\"\(mark)\":\(version)}\n"

  static func line(certificate der: [UInt8]) -> String {
    var json = JSONText()
    json.object { $0.member("certificate", Base64.encode(der)) }
    return json.text + "\n"
  }

  static func line(_ key: RecordedVisit.Key, _ visit: RecordedVisit) -> String {
    var json = JSONText()
    json.object { json in
      json.array("chain", key.chain) { $1.value(Base64.encodeURL($0)) }
      json.member("listener", key.listener)
      if !key.name.isEmpty { json.member("name", key.name) }
      if key.isStream { json.member("stream", true) }
      if !key.front.isEmpty { json.member("front", key.front) }
      json.member("server", visit.server)
      json.member("first", visit.first)
      json.member("last", visit.last)
      json.member("admitted", visit.admitted)
      json.member("refused", visit.refused)
      json.member("resumed", visit.resumed)
      json.member("verdict", visit.verdict.rawValue)
      if !visit.reason.isEmpty { json.member("reason", visit.reason) }
      for (name, place) in handshakeMembers {
        let text = visit.handshake[keyPath: place]
        if !text.isEmpty { json.member(name, text) }
      }
    }
    return json.text + "\n"
  }

  private static var handshakeMembers: [(String, WritableKeyPath<RecordedHandshake, String>)] {
    [
      ("version", \.version), ("cipher", \.cipher), ("group", \.group), ("groups", \.groups),
      ("signatures", \.signatures), ("ciphers", \.ciphers),
    ]
  }

  /// The whole record. Equal records have equal texts.
  package var text: [UInt8] {
    var text = Array(Self.firstLine.utf8)
    for (_, der) in certificates.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      text += Array(Self.line(certificate: der).utf8)
    }
    let lines = visits.map { Self.line($0.key, $0.value) }.sorted()
    for line in lines { text += Array(line.utf8) }
    return text
  }

  /// Reads a record, which somebody may be writing at this moment. No bytes are no record, and neither is a part of the first
  /// line.
  package init(reading bytes: [UInt8]) throws(ClientRecordError) {
    guard bytes.count <= Self.largest else { throw .tooLarge }
    var (start, number) = (0, 0)
    while let end = bytes[start...].firstIndex(of: 0x0A) {
      number += 1
      let line = bytes[start..<end]
      start = end + 1
      if number == 1 { try Self.begin(line) } else { try take(line, number) }
    }
    if number == 0 { throw .foreign }
  }

  private static func begin(_ line: ArraySlice<UInt8>) throws(ClientRecordError) {
    guard line.count <= 4096, let json = try? JSONValue(Array(line)), let found = json[mark]?.integer, found >= 1
    else { throw .foreign }
    guard found <= version else { throw .later(version: found) }
  }

  private mutating func take(_ line: ArraySlice<UInt8>, _ number: Int) throws(ClientRecordError) {
    func fault(_ reason: String) -> ClientRecordError { .malformed(line: number, reason: reason) }
    guard line.count <= Self.longestLine else { throw fault("it has more than \(Self.longestLine) octets") }
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (Self.longestLine, 4, 200)
    let json: JSONValue
    do throws(JSONFault) { json = try JSONValue(Array(line), limits: limits) } catch {
      throw fault("it is no JSON, \(error)")
    }
    guard json.members != nil else { throw fault("it is no JSON object") }
    if let text = json["certificate"] {
      guard let encoded = text.text, let der = try? Base64.decode(encoded), !der.isEmpty,
        der.count <= Self.longestCertificate
      else { throw fault("\"certificate\" is no certificate in Base64 of at most \(Self.longestCertificate) octets") }
      _ = add(certificate: der)
    } else if let chain = json["chain"] {
      try takeVisit(chain, json, fault)
    }
  }

  private mutating func takeVisit(
    _ chain: JSONValue, _ json: JSONValue, _ fault: (String) -> ClientRecordError
  ) throws(ClientRecordError) {
    guard let list = chain.list, (1...Self.longestChain).contains(list.count) else {
      throw fault("\"chain\" is no list of 1 to \(Self.longestChain) certificates")
    }
    var identities: [[UInt8]] = []
    for value in list {
      guard let text = value.text, let identity = try? Base64.decodeURL(text), certificates[identity] != nil else {
        throw fault("\"chain\" names a certificate that no line before it has")
      }
      identities.append(identity)
    }
    func text(_ name: String) throws(ClientRecordError) -> String {
      guard let value = json[name] else { return "" }
      guard let text = value.text, text.utf8.count <= Self.longestText else {
        throw fault("\"\(name)\" is no text of at most \(Self.longestText) octets")
      }
      return text
    }
    func number(_ name: String) throws(ClientRecordError) -> Int64 {
      guard let value = json[name]?.integer, (0...Self.latest).contains(value) else {
        throw fault("\"\(name)\" is no whole number from 0")
      }
      return value
    }
    guard let verdict = RecordedVerdict(rawValue: try text("verdict")) else {
      throw fault(
        "\"verdict\" is none of \(RecordedVerdict.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    let key = RecordedVisit.Key(
      chain: identities, listener: try text("listener"), name: try text("name"),
      isStream: json["stream"]?.flag ?? false, front: try text("front"))
    var visit = RecordedVisit(at: try number("first"), verdict, reason: try text("reason"))
    visit.last = try number("last")
    guard visit.last >= visit.first else { throw fault("\"last\" is before \"first\"") }
    visit.server = try text("server")
    visit.admitted = Int(clamping: try number("admitted"))
    visit.refused = Int(clamping: try number("refused"))
    visit.resumed = Int(clamping: try number("resumed"))
    for (name, place) in Self.handshakeMembers { visit.handshake[keyPath: place] = try text(name) }
    add(visit, of: key)
  }

  /// The last second of the year 9999, and the largest count.
  private static let latest: Int64 = 253_402_300_799
}
