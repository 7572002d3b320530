import COpenSSL
import Crypto
import Transport

/// The certificates of a server block some of which have variables in the names of their files.
struct NamedCertificates: Sendable {
  enum Certificate: Sendable {
    case loaded(CertifiedKey)
    case named(NamedCertificate)
  }

  /// In the order of the configuration. As in nginx, the last one of a kind of key is presented.
  let certificates: [Certificate]
  let store: CertificateStore

  /// Returns nil for settings without such certificates.
  init?(_ settings: ServerTLSSettings, _ material: ServerTLSMaterial) {
    guard !settings.namedCertificates.isEmpty, let store = material.store else { return nil }
    var loaded = material.certificates[...]
    certificates = settings.presented.compactMap { certificate in
      switch certificate {
      case .fixed: loaded.popFirst().map { .loaded($0) }
      case .named(let named): .named(named)
      }
    }
    self.store = store
  }

  func wanted(by facts: HandshakeFacts) throws(NamedCertificateFault) -> [CertificateStore.Wanted] {
    var wanted: [CertificateStore.Wanted] = []
    for certificate in certificates {
      switch certificate {
      case .loaded(let pair): wanted.append(.loaded(pair))
      case .named(let named): wanted.append(.file(try named.source(for: facts)))
      }
    }
    return wanted
  }

  /// What distinguishes sessions under these names from others: the names as the configuration has them, as in nginx.
  var digest: [UInt8] {
    certificates.reduce(into: []) { bytes, certificate in
      switch certificate {
      case .loaded(let pair): bytes += [1] + pair.certificate.sha256
      case .named(let named):
        bytes += [2] + Digest.of(Array("\(named.certificate)\0\(named.key?.description ?? "")".utf8))
      }
    }
  }
}

/// Which certificates a handshake presents whose files the client's name, or another variable, chooses.
///
/// OpenSSL asks for them when it has neither a session to resume nor a certificate. The handshake then waits for the
/// files, and the loop does other work.
final class CertificateChoice {
  enum State {
    case waiting(StreamWaiter, BlockingPool.Ticket)
    case found([CertifiedKey])
    case refused(NamedCertificateFault)
    case presented
  }

  fileprivate(set) var state: State
  private let store: CertificateStore

  fileprivate init(_ state: State, _ store: CertificateStore) {
    self.state = state
    self.store = store
  }

  var isWaiting: Bool { if case .waiting = state { true } else { false } }
  var fault: String? { if case .refused(let fault) = state { fault.reason } else { nil } }

  /// The connection has ended: nobody waits any longer.
  func end() {
    guard case .waiting(let waiter, let ticket) = state else { return }
    store.withdraw(ticket)
    _ = waiter.take()
  }
}

extension TLSStream {
  /// SSL_CTX_set_cert_cb: 1 goes on, 0 ends the handshake, -1 suspends it (SSL_ERROR_WANT_X509_LOOKUP).
  static let presentCertificates: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, _ in
    let (fails, goesOn, waits): (Int32, Int32, Int32) = (0, 1, -1)
    guard let ssl, let stream = TLSStream.of(ssl), let names = stream.serverContext?.names else { return fails }
    let choice = stream.certificateChoice ?? CertificateChoice(stream.chooseCertificates(names), names.store)
    stream.certificateChoice = choice
    switch choice.state {
    case .waiting: return waits
    case .refused: return fails
    // After a HelloRetryRequest, OpenSSL may ask again.
    case .presented: return goesOn
    case .found(let pairs):
      if let fault = present(pairs, on: ssl) {
        choice.state = .refused(fault)
        return fails
      }
      choice.state = .presented
      return goesOn
    }
  }

  private func chooseCertificates(_ names: NamedCertificates) -> CertificateChoice.State {
    let facts = HandshakeFacts(
      serverName: serverName, local: Sockets.localAddress(of: descriptor), peer: Sockets.peerAddress(of: descriptor))
    let wanted: [CertificateStore.Wanted]
    do throws(NamedCertificateFault) { wanted = try names.wanted(by: facts) } catch { return .refused(error) }
    switch names.store.known(wanted) {
    case .success(let pairs): return .found(pairs)
    case .failure(let fault): return .refused(fault)
    case nil: break
    }
    let waiter = StreamWaiter(self)
    let outcome = names.store.load(wanted, for: facts.peer?.party ?? "") { [loop] outcome in
      loop.post { waiter.take()?.certificatesDidCome(outcome) }
    }
    guard case .taken(let ticket, _) = outcome else {
      _ = waiter.take()
      return .refused(NamedCertificateFault(reason: "cannot load certificate: too many handshakes wait for theirs"))
    }
    return .waiting(waiter, ticket)
  }

  private func certificatesDidCome(_ outcome: CertificateStore.Outcome) {
    guard !isClosed, let certificateChoice, certificateChoice.isWaiting else { return }
    switch outcome {
    case .success(let pairs): certificateChoice.state = .found(pairs)
    case .failure(let fault): certificateChoice.state = .refused(fault)
    }
    advanceOpening()
    if isOpen { resumeReading() }
  }

  /// Returns whether the handshake waits for its certificate, and fails it if the client has left: no client can
  /// complete a handshake after its FIN.
  func waitsForCertificate() -> Bool {
    guard let certificateChoice, certificateChoice.isWaiting else { return false }
    if hasPeerEnd { fail(.truncated) }
    return true
  }

  /// Returns why OpenSSL refuses the certificates; nil when the SSL has them.
  static func present(_ pairs: [CertifiedKey], on ssl: OpaquePointer) -> NamedCertificateFault? {
    func fault() -> NamedCertificateFault {
      NamedCertificateFault(reason: "OpenSSL refuses the certificate: \(OpenSSLReasons.words())")
    }
    SSL_certs_clear(ssl)
    for pair in pairs {
      guard SSL_use_certificate(ssl, pair.certificate.handle) == 1, SSL_use_PrivateKey(ssl, pair.key.handle) == 1 else {
        return fault()
      }
      copenssl_set0_chain(ssl)
      for certificate in pair.chain where copenssl_add1_chain_cert(ssl, certificate.handle) != 1 { return fault() }
    }
    return nil
  }

  /// Why the handshake had no certificate to present; nil where it had one, or none was to be chosen.
  public var missingCertificate: String? { certificateChoice?.fault ?? serverContext?.absence }

  /// SSL_CTX_set_cert_cb of a server block that has no certificate yet: ends the handshake.
  static let refuseWithoutCertificate: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { _, _ in 0
  }
}
