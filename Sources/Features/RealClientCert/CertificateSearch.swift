import Bytes
import Crypto
import Forward
import Glibc
import Language
import HTTP
import Identity
import Observability
import TLS
import Traffic

/// What a server block has of `RealClientCert` in one worker: finds whose certificate a request is judged by.
///
/// A front's connection carries the requests of many clients, so each request is judged by its own field. The field is
/// removed from every request, a front's and a stranger's: nothing after this sees it, neither a variable nor an upstream.
final class CertificateSearch: RelayedClientStep {
  private let settings: RealClientCert
  /// With what is said of each.
  private let fronts: [(source: AccessRule.Source, name: String)]
  /// Every spelling of the fields that an upstream could take for them.
  private var names = NameSet()
  private let name: [UInt8]
  private let chainName: [UInt8]?
  private let trace: ExplainTrace?

  init(_ settings: RealClientCert, _ trace: ExplainTrace?) {
    self.settings = settings
    fronts = settings.addresses.map { ($0.source, $0.source.asWritten) }
    self.trace = trace
    name = Array(settings.field.name.utf8)
    chainName = settings.field.chainName.map { Array($0.utf8) }
    for name in settings.removedFields { names.insert(name, withAliases: true) }
  }

  /// Settles the client of an exchange that begins. Changes nothing for a client over TLS who is no front: the handshake
  /// has judged it.
  override func run(_ exchange: Exchange, _ session: ClientSession, at server: LiveServer) {
    let sent = Self.sent(in: exchange.head, name, chainName)
    let hasAny = exchange.head.fields.contains { names.contains($0, in: exchange.head.bytes.readable) }
    // The log and the responses of a refusal are those of this server block.
    exchange.assume(server)
    if hasAny { exchange.head.removeFields { names.contains($0, in: $1) } }
    // There is none only if the settings have an error, and then nothing serves.
    guard let context = server.context else {
      return exchange.setClient(RelayedClient(from: .stranger, unreadable: "the server block judges no clients"))
    }
    guard let source = source(of: session, at: server) else {
      if hasAny {
        exchange.log(
          .info, "client sent \"\(settings.field.name)\", and is not in \(RealClientCert.fromLine.name): it was removed"
        )
        trace?.add("front", "no: the field \(settings.field.name) is removed (\(RealClientCert.fromLine.name))")
      }
      // Over TLS, the client is that of the handshake.
      if session.tls == nil { exchange.setClient(RelayedClient(from: .stranger, .absent, by: context)) }
      return
    }
    let client = client(sent, from: source, by: context)
    exchange.setClient(client)
    if let trace { tell(client, trace) }
  }

  // MARK: Fronts

  /// nil: the client is no front.
  private func source(of session: ClientSession, at server: LiveServer) -> RelayedClient.Source? {
    if let name = address(of: session) { return .frontByAddress(name) }
    // The block of the request must verify clients as the block of the handshake did, or the front's own certificate says
    // nothing here.
    if session.tls != nil, session.admits(at: server), isSelected(session) { return .frontByCertificate }
    return nil
  }

  override func isFront(_ session: ClientSession) -> Bool { address(of: session) != nil }

  /// The line by which the session's peer is a front for its address; nil: by none. A front whose own certificate doesn't
  /// verify is none.
  private func address(of session: ClientSession) -> String? {
    if let tls = session.tls {
      guard tls.serverContext != nil, !tls.isInClear else { return nil }
      switch tls.clientVerdict {
      case .absent, .verified: break
      // Pins are refused beside fronts when the configuration is loaded.
      case .pinned, .unverified, .refused: return nil
      }
    }
    return fronts.first { $0.source.contains(session.facts.peer) }?.name
  }

  /// Whether the certificate of the session's handshake has verified, and matches a selector.
  func isSelected(_ session: ClientSession) -> Bool {
    guard let selectors = settings.selectors, session.facts.verifiedChain != nil else { return false }
    return session.facts.judge(by: selectors, scratch: session.worker.patternScratch) == .admitted
  }

  /// Whether a front that has sent a request is one by these settings, too.
  override func believes(_ source: RelayedClient.Source, _ session: ClientSession) -> Bool {
    switch source {
    case .frontByAddress: isFront(session)
    case .frontByCertificate: isSelected(session)
    case .stranger: true
    }
  }

  // MARK: The field

  private enum Sent {
    case nothing
    case field([UInt8], chain: [UInt8]?)
    case fault(String)
  }

  /// The fields by their own names alone: another spelling was not written by the front.
  private static func sent(in head: RequestHead, _ name: [UInt8], _ chainName: [UInt8]?) -> Sent {
    let bytes = head.bytes.readable
    var values: [UnsafeRawBufferPointer] = [], chains: [UnsafeRawBufferPointer] = []
    for field in head.fields where field.id == .other {
      let sent = bytes[field.name]
      if sent.equalsIgnoringCase(name) {
        values.append(bytes[field.value])
      } else if let chainName, sent.equalsIgnoringCase(chainName) {
        chains.append(bytes[field.value])
      }
    }
    guard values.count < 2, chains.count < 2 else { return .fault("a front sent the field twice") }
    // A front that writes an empty value has overwritten the client's field, and has no certificate.
    let value = values.first.flatMap { $0.isEmpty ? nil : $0 }, chain = chains.first.flatMap { $0.isEmpty ? nil : $0 }
    switch (value, chain) {
    case (nil, nil): return .nothing
    case (nil, _?): return .fault("a front sent a chain without a certificate")
    case (let value?, let chain): return .field(Array(value), chain: chain.map { Array($0) })
    }
  }

  private func client(
    _ sent: Sent, from source: RelayedClient.Source, by context: ServerTLSContext
  ) -> RelayedClient {
    let value: [UInt8], chain: [UInt8]?
    switch sent {
    case .nothing: return RelayedClient(from: source, .absent, by: context)
    case .fault(let reason): return unreadable(source, reason)
    case .field(let sentValue, let sentChain): (value, chain) = (sentValue, sentChain)
    }
    guard value.count + (chain?.count ?? 0) <= CertificateField.mostBytes else {
      return unreadable(source, "the value is longer than \(CertificateField.mostBytes) bytes")
    }
    let digest = Digest.of(Self.framed(value) + (chain.map { Self.framed($0) } ?? []))
    let now = Int64(time(nil))
    if let known = context.knownChain(digest, at: now) {
      return RelayedClient(
        from: source, .verified(known.chain), showing: known.sent, digest: digest, by: context, until: known.end)
    }
    do throws(CertificateFieldError) {
      let certificates = try certificates(value, chain)
      let judgement = context.judge(certificates, from: digest, at: now)
      let shown =
        if case .verified(let chain) = judgement.verdict { chain.part(of: certificates) } else { certificates }
      return RelayedClient(
        from: source, judgement.verdict, showing: shown, digest: digest, by: context, until: judgement.validUntil)
    } catch {
      return unreadable(source, error.reason)
    }
  }

  /// With the length before it, so that no two pairs of values have the same bytes.
  private static func framed(_ value: [UInt8]) -> [UInt8] {
    withUnsafeBytes(of: UInt64(value.count).bigEndian) { Array($0) } + value
  }

  private func certificates(_ value: [UInt8], _ chain: [UInt8]?) throws(CertificateFieldError) -> [Certificate] {
    let field = settings.field
    return try value.withUnsafeBytes { value in
      Result { () throws(CertificateFieldError) in
        guard let chain else { return try field.certificates(value, chain: nil) }
        return try chain.withUnsafeBytes { chain in
          Result { () throws(CertificateFieldError) in try field.certificates(value, chain: chain) }
        }.get()
      }
    }.get()
  }

  private func unreadable(_ source: RelayedClient.Source, _ reason: String) -> RelayedClient {
    RelayedClient(
      from: source, unreadable: "no client certificate can be read from the field \"\(settings.field.name)\": \(reason)"
    )
  }

  // MARK: Words

  private func tell(_ client: RelayedClient, _ trace: ExplainTrace) {
    let proof = "the front, and not sallyport, has seen the proof of its key"
    trace.add(
      "front",
      "the word of the peer counts (\(RealClientCert.fromLine.name)\(client.source == .frontByCertificate ? ", by its certificate" : ""))"
    )
    if client.isUnreadable, case .refused(_, _, let reason) = client.admission { return trace.add("client", reason) }
    switch client.verdict {
    case .absent: trace.add("client", "has no certificate: the front sent none in \(settings.field.name)")
    case .verified(let chain): trace.add("client", "\(chain.leaf.subject): verified; \(proof)")
    case .pinned: trace.add("client", "is known by a pin, which doesn't count behind a front")
    case .unverified(let leaf, let reason), .refused(let leaf, _, let reason, _):
      trace.add("client", "\(leaf.subject): does not verify, \(reason)")
    }
  }
}

extension UnsafeRawBufferPointer {
  fileprivate func equalsIgnoringCase(_ name: [UInt8]) -> Bool {
    count == name.count && zip(self, name).allSatisfy { ASCII.lower($0) == ASCII.lower($1) }
  }
}
