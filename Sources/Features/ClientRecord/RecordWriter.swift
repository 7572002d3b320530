import Bytes
import Crypto
import Glibc
import Language
import Observability
import Traffic

/// A visit on its way to a record.
struct SeenVisit: Sendable {
  /// What the client sent, the leaf first.
  let certificates: [Certificate]
  let listener: String
  let name: String
  let isStream: Bool
  /// As `RecordedVisit.Key.front`.
  var front = ""
  var visit: RecordedVisit
}

/// Writes a record: what is new at once, at its end; what is known together, later; and now and then the whole file anew,
/// without what is too old or too much. Blocks. One thread at a time has it.
struct RecordWriter: Sendable {
  struct Bounds: Sendable, Hashable {
    var days = 30
    var limit = 100_000
  }

  /// Why nothing was written.
  struct Fault: Error, Sendable, CustomStringConvertible {
    let description: String
  }

  let path: String
  var bounds: Bounds
  /// What isn't in the file yet.
  private(set) var waiting = RecordedClients()
  private var waitingOctets = 0
  /// Visits that there was no room for.
  private(set) var lost = 0
  /// Certificates in the file, by their SHA-256.
  private var known: Set<[UInt8]> = []
  /// The keys in the file, with whether the client was let in when it came last.
  private var visits: [RecordedVisit.Key: Bool] = [:]
  private var chains: Set<[[UInt8]]> = []
  private var strangers = 0
  /// Octets of the file, and of it when it was last written whole.
  private var size = 0
  private var wholeSize = 0
  /// Seconds since 1970.
  private var wholeAt: Int64 = .min
  private var toldAt: Int64 = .min
  /// nil: the file isn't read yet, or its end is unknown.
  private var isLoaded = false
  /// What became of a file that was no record, for the log; nil: nothing.
  private(set) var damage: String?

  /// Visits, and octets of certificates, that may wait while the disk is full.
  static let mostWaiting = 65_536
  private static let mostOctets = 32 << 20
  /// Seconds that a visit of a known client waits.
  static let patience: Int64 = 3600
  /// Seconds between two files that are written whole because of their bounds.
  static let pause: Int64 = 60
  private static let day: Int64 = 86_400

  init(_ path: String, _ bounds: Bounds) {
    self.path = path
    self.bounds = bounds
  }

  // MARK: What comes

  mutating func add(_ seen: [SeenVisit]) {
    for one in seen where !take(one) { lost += 1 }
  }

  /// Returns false if there is no room for the visit.
  private mutating func take(_ seen: SeenVisit) -> Bool {
    let ders = seen.certificates.map(\.der)
    // OpenSSL takes no more from a client by itself. Strangers could fill a record with less.
    let most = seen.visit.verdict.isLetIn ? RecordedClients.longestCertificate : 8 << 10
    guard (1...RecordedClients.longestChain).contains(ders.count), !ders.contains(where: \.isEmpty),
      ders.reduce(0, { $0 + $1.count }) <= most
    else { return false }
    let key = place(
      of: RecordedVisit.Key(
        chain: ders.map { Digest.of($0) }, listener: seen.listener.cut(to: 1024), name: seen.name,
        isStream: seen.isStream, front: seen.front))
    guard waiting.visits[key] != nil || waiting.visits.count < Self.mostWaiting else { return false }
    for (identity, der) in zip(key.chain, ders) where !known.contains(identity) {
      guard waiting.certificates[identity] == nil else { continue }
      guard waitingOctets + der.count <= Self.mostOctets else { return false }
      waitingOctets += der.count
      _ = waiting.add(certificate: der)
    }
    waiting.add(seen.visit, of: key)
    return true
  }

  /// Names and fronts that a client may have with one chain at one listener: under a wildcard it can invent any number.
  static let mostNames = 16

  private func place(of key: RecordedVisit.Key) -> RecordedVisit.Key {
    if visits[key] != nil || waiting.visits[key] != nil || !chains.contains(key.chain) { return key }
    let others = visits.keys.lazy.filter {
      $0.chain == key.chain && $0.listener == key.listener && $0.isStream == key.isStream
        && $0.front.isEmpty == key.front.isEmpty
    }
    guard others.prefix(Self.mostNames).count == Self.mostNames else { return key }
    return others.min { ($0.name, $0.front) < ($1.name, $1.front) } ?? key
  }

  // MARK: What is written

  /// Writes what is due. `isLast`: everything is. `now`: seconds since 1970.
  mutating func write(now: Int64, isLast: Bool = false) throws(Fault) {
    if !isLoaded { try load(now: now) }
    let isOver = size > 2 * wholeSize + (1 << 20) || chains.count > bounds.limit || strangers > mostStrangers
    if !isLoaded || now &- wholeAt >= Self.day || isOver && now &- wholeAt >= Self.pause {
      return try writeWhole(now: now)
    }
    let isAll = isLast || now &- toldAt >= Self.patience || waiting.visits.count > Self.mostWaiting / 2
    let due = waiting.visits.filter { isAll || visits[$0.key] != $0.value.verdict.isLetIn }
    if !due.isEmpty { try append(due, now: now) }
    if isAll { toldAt = now }
  }

  private var mostStrangers: Int { RecordedClients.strangers(of: bounds.limit) }

  private mutating func append(_ due: [RecordedVisit.Key: RecordedVisit], now: Int64) throws(Fault) {
    var text = "", fresh = Set<[UInt8]>(), new = (chains: chains.count, strangers: strangers)
    var written: [RecordedVisit.Key: RecordedVisit] = [:]
    for (key, visit) in due {
      if !chains.contains(key.chain) {
        // Until it is written whole again, which drops as many, the file takes a bounded number.
        guard visit.admitted > 0 ? new.chains < 2 * bounds.limit : new.strangers < 2 * mostStrangers else {
          lost += 1
          continue
        }
        new.chains += 1
        if visit.admitted == 0 { new.strangers += 1 }
        for identity in key.chain where !known.contains(identity) && fresh.insert(identity).inserted {
          if let der = waiting.certificates[identity] { text += RecordedClients.line(certificate: der) }
        }
      }
      text += RecordedClients.line(key, visit)
      written[key] = visit
    }
    let bytes = Array(text.utf8)
    do throws(NewFile.Failure) {
      let descriptor = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC)
      guard descriptor >= 0 else { throw NewFile.Failure("open", path) }
      defer { close(descriptor) }
      var state = stat()
      guard fstat(descriptor, &state) == 0 else { throw NewFile.Failure("fstat", path) }
      // Another process writes it, too, or somebody has put another file there.
      guard state.st_size == size else { throw NewFile.Failure("open", path, ENOENT) }
      let code = bytes.withUnsafeBytes { Self.write($0, to: descriptor) }
      if code != 0 { throw NewFile.Failure("write", path, code) }
    } catch {
      // A part of a line may be there.
      isLoaded = false
      guard error.call == "open", error.code == ENOENT else { throw Fault(description: "\(error)") }
      try load(now: now)
      return try writeWhole(now: now)
    }
    size += bytes.count
    known.formUnion(fresh)
    for (key, visit) in written { note(key, visit) }
    for key in due.keys { waiting.remove(key) }
    // Who waits on is known, so the file has the certificates.
    waiting.removeCertificates()
    waitingOctets = 0
  }

  /// Returns 0, or errno after a part of the bytes at most.
  private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt) -> CInt {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : EIO }
      rest = rest.dropFirst(count)
    }
    return 0
  }

  /// Nothing waits any more.
  private mutating func forget() {
    waiting = RecordedClients()
    waitingOctets = 0
  }

  private mutating func note(_ key: RecordedVisit.Key, _ visit: RecordedVisit) {
    visits[key] = visit.verdict.isLetIn
    if chains.insert(key.chain).inserted, visit.admitted == 0 { strangers += 1 }
  }

  private mutating func note(_ record: RecordedClients) {
    known = Set(record.certificates.keys)
    (visits, chains, strangers) = ([:], [], 0)
    for (key, visit) in record.visits { note(key, visit) }
  }

  /// Reads the file that is there, which the process before this one has written.
  private mutating func load(now: Int64) throws(Fault) {
    NewFile.removeDrafts(of: path)
    let record = try read()
    note(record.value)
    (size, wholeSize) = (record.size, record.size)
    // A torn end is written anew, as is a file that is missing.
    isLoaded = record.isSound
    // The first write makes it whole, within the bounds of this configuration.
    if wholeAt == .min { wholeAt = now &- Self.day }
  }

  /// The file's record, and its size; an empty one without a file. One that is no record is set aside.
  private mutating func read() throws(Fault) -> (value: RecordedClients, size: Int, isSound: Bool) {
    let bytes: [UInt8]
    switch SourceFiles.disk.read(path, RecordedClients.largest) {
    case .failure(let fault) where fault.isMissing: return (RecordedClients(), 0, false)
    case .failure(let fault): throw Fault(description: fault.reason)
    case .success(let found): bytes = found
    }
    if bytes.isEmpty { return (RecordedClients(), 0, false) }
    do throws(ClientRecordError) {
      return (try RecordedClients(reading: bytes), bytes.count, bytes.last == 0x0A)
    } catch {
      do throws(NewFile.Failure) {
        damage = "\"\(try NewFile.setAside(path))\"; \(error)"
      } catch { throw Fault(description: "\(error)") }
      return (RecordedClients(), 0, false)
    }
  }

  /// Tells of a damaged file once.
  mutating func takeDamage() -> String? {
    defer { damage = nil }
    return damage
  }

  /// Replaces the file by one that has what it has and what waits, within the bounds.
  private mutating func writeWhole(now: Int64) throws(Fault) {
    var record = try read().value
    record.add(waiting)
    record.prune(
      before: now.subtractingReportingOverflow(Int64(clamping: bounds.days) * Self.day).partialValue,
      limit: bounds.limit)
    let text = record.text
    do throws(NewFile.Failure) {
      try NewFile.replace(path, SecretBytes(text), mode: 0o600, isShared: true)
    } catch { throw Fault(description: "\(error)") }
    note(record)
    (size, wholeSize, wholeAt, toldAt, isLoaded) = (text.count, text.count, now, now, true)
    forget()
  }

  /// How many visits were not recorded since somebody asked.
  mutating func takeLost() -> Int {
    defer { lost = 0 }
    return lost
  }
}
