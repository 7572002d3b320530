import Crypto
import Glibc
import Observability
import TLS
import Traffic
import Upstream

/// Notes who has shown a certificate to a server block, or had a front relay one.
final class RecordWatch: ClientWatch {
  private let buffer: RecordBuffer
  private let file: RecordFile

  init(_ buffer: RecordBuffer, _ file: RecordFile) {
    self.buffer = buffer
    self.file = file
  }

  override func handshakeDidEnd(_ session: ClientSession) {
    note(
      session,
      Self.verdict(session.admission, session.tls?.clientVerdict) {
        Self.ruling(session.facts, at: session.firstServer, session)
      })
  }

  override func clientWasRelayed(_ exchange: Exchange, _ client: RelayedClient) {
    let session = exchange.session, server = exchange.server
    let verdict = Self.verdict(client.admission, client.verdict) { Self.ruling(exchange.facts, at: server, session) }
    guard let verdict else { return }
    let key = RecordBuffer.Key(
      file: ObjectIdentifier(file), listener: ObjectIdentifier(session.servers), digest: client.digest,
      name: exchange.host, front: RecordBuffer.Front(client.source, session))
    buffer.note(key, file, verdict.0, verdict.reason) { visit in
      var visit = visit
      visit.reason = visit.reason.cut(to: 512)
      visit.server = server.settings.primaryName.cut(to: 256)
      return SeenVisit(
        certificates: client.certificates, listener: session.servers.settings.address.description,
        name: String(decoding: key.name, as: UTF8.self).cut(to: 256), isStream: false,
        front: Self.name(of: client.source, session).cut(to: 256), visit: visit)
    }
  }

  private static func name(of source: RelayedClient.Source, _ session: ClientSession) -> String {
    switch source {
    case .frontByAddress(let name): name
    case .frontByCertificate: session.facts.verifiedChain?.leaf.subject.rfc2253 ?? ""
    case .stranger: ""
    }
  }

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

  /// How a client was judged; nil: no certificate was judged. `ruling`: as the function below.
  private static func verdict(
    _ admission: Admission, _ verdict: ClientVerdict?, _ ruling: () -> (RecordedVerdict, reason: String)?
  ) -> (RecordedVerdict, reason: String)? {
    switch admission {
    case .undecided, .inClear: nil
    case .reported(let reason): (.reported, reason)
    case .refused(_, _, let reason): (.refused, reason)
    case .granted:
      switch verdict {
      case nil, .absent: nil
      case .refused(_, _, let reason, _): (.refused, reason)
      case .unverified(_, let reason): (.unverified, reason)
      case .verified: ruling() ?? (.verified, "")
      case .pinned: ruling() ?? (.pinned, "")
      }
    }
  }

  /// What the access rules of the server block say against the client, whom its requests ask again; nil: nothing.
  private static func ruling(
    _ facts: ConnectionFacts, at server: LiveServer, _ session: ClientSession
  ) -> (RecordedVerdict, reason: String)? {
    guard server.root.clientRules != nil else { return nil }
    return server.root.denial(of: facts, scratch: session.worker.patternScratch).map { (.ruled, $0) }
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
  /// By whom a client came, of what a request knows without work.
  enum Front: Hashable {
    case none
    case line(String)
    /// The digest of the front's own certificates.
    case certificate([UInt8])

    init(_ source: RelayedClient.Source, _ session: ClientSession) {
      self =
        switch source {
        case .frontByAddress(let name): .line(name)
        case .frontByCertificate: .certificate(session.tls?.shownDigest ?? [])
        case .stranger: .none
        }
    }
  }

  /// What tells one client's visits from another's, of what a handshake knows without work.
  struct Key: Hashable {
    let file: ObjectIdentifier
    let listener: ObjectIdentifier
    let digest: [UInt8]
    let name: [UInt8]
    var isResumed = false
    var front = Front.none
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
