import Crypto
import Glibc
import Observability
import TLS
import Traffic
import Upstream

/// Notes who has shown a certificate to a server block.
final class RecordWatch: ClientWatch {
  private let buffer: RecordBuffer
  private let file: RecordFile

  init(_ buffer: RecordBuffer, _ file: RecordFile) {
    self.buffer = buffer
    self.file = file
  }

  override func handshakeDidEnd(_ session: ClientSession) { note(session, Self.verdict(session)) }

  override func handshakeDidFail(_ session: ClientSession, _ cause: HandshakeCause, _ reason: String) {
    guard let tls = session.tls, !tls.refusedChain.isEmpty else { return }
    note(session, Self.verdict(tls.shownRefusal))
  }

  private func note(_ session: ClientSession, _ verdict: (RecordedVerdict, reason: String)?) {
    guard let verdict, let tls = session.tls, let digest = tls.shownDigest else { return }
    let key = RecordBuffer.Key(
      file: ObjectIdentifier(file), listener: ObjectIdentifier(session.servers), digest: digest, name: tls.serverName,
      isResumed: tls.isResumed)
    // What a record has of a handshake beside its counts.
    buffer.note(key, file, verdict.0, verdict.reason) { visit in
      var visit = visit
      visit.reason = visit.reason.cut(to: 512)
      visit.server = session.firstServer.settings.primaryName.cut(to: 256)
      visit.handshake.version = tls.protocolName
      visit.handshake.cipher = tls.cipherName
      visit.handshake.group = tls.groupName
      visit.handshake.groups = tls.clientGroupNames.cut(to: 1024)
      visit.handshake.signatures = tls.clientSignatureSchemes.cut(to: 2048)
      if visit.handshake.version != "TLSv1.3" { visit.handshake.ciphers = tls.clientCiphers.cut(to: 4096) }
      return SeenVisit(
        certificates: tls.shownCertificates, listener: session.servers.settings.address.description,
        name: String(decoding: tls.serverName, as: UTF8.self),
        isStream: session.servers.settings.kind == .stream, visit: visit)
    }
  }

  /// How the session has judged its client; nil: no certificate was judged.
  private static func verdict(_ session: ClientSession) -> (RecordedVerdict, reason: String)? {
    switch session.admission {
    case .undecided, .inClear: nil
    case .reported(let reason): (.reported, reason)
    case .refused(_, let reason): (.refused, reason)
    case .granted:
      switch session.tls?.clientVerdict {
      case nil, .absent: nil
      case .refused(_, _, let reason): (.refused, reason)
      case .unverified(_, let reason): (.unverified, reason)
      case .verified: ruling(session) ?? (.verified, "")
      case .pinned: ruling(session) ?? (.pinned, "")
      }
    }
  }

  /// What the access rules of the server block say against the client, whom its requests ask again; nil: nothing.
  private static func ruling(_ session: ClientSession) -> (RecordedVerdict, reason: String)? {
    let root = session.firstServer.root
    guard root.clientRules != nil else { return nil }
    return root.denial(of: session.facts, scratch: session.worker.patternScratch).map { (.ruled, $0) }
  }

  private static func verdict(_ refusal: ShownRefusal?) -> (RecordedVerdict, reason: String)? {
    switch refusal {
    case .certificate(let reason)?: (.refused, reason)
    case .rule(let reason)?: (.ruled, reason)
    case nil: nil
    }
  }
}

/// What a worker's generation has seen and not handed over yet. Made only if a server block keeps a record.
final class RecordBuffer: LivePart {
  /// What tells one client's visits from another's, of what a handshake knows without work.
  struct Key: Hashable {
    let file: ObjectIdentifier
    let listener: ObjectIdentifier
    let digest: [UInt8]
    let name: [UInt8]
    let isResumed: Bool
  }

  private var seen: [Key: (file: RecordFile, visit: SeenVisit)] = [:]
  /// Milliseconds of the loop's clock; nil: nothing waits.
  private var beganAt: UInt64?
  private var isClosed = false

  /// Milliseconds.
  private static let patience: UInt64 = 5000
  /// Each holds a client's certificates, some 6 KiB.
  static let most = 1024

  /// Counts a handshake. `make`: called for the first one.
  func note(
    _ key: Key, _ file: RecordFile, _ verdict: RecordedVerdict, _ reason: String, make: (RecordedVisit) -> SeenVisit
  ) {
    let now = Int64(time(nil))
    if seen[key]?.visit.visit.count(at: now, verdict, reason: reason, isResumed: key.isResumed) == nil {
      var visit = RecordedVisit(at: now, verdict, reason: reason)
      visit.count(at: now, verdict, reason: reason, isResumed: key.isResumed)
      seen[key] = (file, make(visit))
      if isClosed || seen.count >= Self.most { flush() }
    }
  }

  override func tick(now: UInt64) {
    guard !seen.isEmpty else { return }
    guard let beganAt else { return self.beganAt = now }
    if now &- beganAt &+ 1000 >= Self.patience { flush() }
  }

  override func flush() {
    beganAt = nil
    guard !seen.isEmpty else { return }
    let files = Dictionary(grouping: seen.values, by: { ObjectIdentifier($0.file) })
    for some in files.values { some[0].file.take(some.map(\.visit)) }
    seen.removeAll(keepingCapacity: true)
  }

  override func close() {
    isClosed = true
    flush()
  }
}
