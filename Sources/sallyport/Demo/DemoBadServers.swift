import Crypto
import Glibc
import Review
import Synchronization
import TLS
import Transport

/// The servers of `--bad-servers`: on a port of its own for each, and on one that chooses by the name which a client asks for.
///
/// Their certificates exist in memory alone, and are made at each start. A thread serves one connection.
final class DemoBadServers: Sendable {
  /// nil: the name that the client asks for chooses.
  private typealias Listener = (descriptor: Int32, server: BadServer?)

  private let listeners: [(descriptor: Int32, server: BadServer?)]
  private let first: UInt16
  private let servers = Mutex<[BadServer: TrialServer]>([:])
  private static let connectionLimit = 64
  private static let secondsEach = 10
  private static let days: Int64 = 90
  static let listName = "servers.crl"

  /// Listens on the hosts of `addresses`, and serves from `start` on.
  init(on addresses: [SocketAddress], first: UInt16) throws(DemoFailure) {
    self.first = first
    var listeners: [Listener] = []
    for address in addresses {
      for (server, port) in [(nil, first)] + BadServer.allCases.map({ ($0, $0.port(after: first)) }) {
        let own = address.withPort(port)
        do throws(SocketError) {
          listeners.append((try Sockets.listen(on: own, backlog: 64, reuseport: false, ipv6only: true), server))
        } catch {
          let why = error.code == EADDRINUSE ? "another process uses \(own)" : "can't listen on \(own): \(error)"
          throw DemoFailure(
            text: "\(why): --bad-servers needs \(BadServer.allCases.count + 1) ports from \(first) on, choose others")
        }
      }
    }
    self.listeners = listeners
  }

  // MARK: Certificates

  /// Makes all certificates anew, with the list of those that are revoked. Clients of the former ones are served on.
  func refresh(_ files: DemoFiles) throws(DemoFailure) {
    guard let authority = files.folder.pair("ca"), let server = files.folder.pair(DemoRole.server.rawValue) else {
      throw DemoFailure(text: "\(files.folder.file("server.key")) does not exist any more: start the demo again")
    }
    var made: [BadServer: TrialServer] = [:]
    for kind in BadServer.allCases {
      let pair =
        kind == .good
        ? server
        : try DemoFailure.making { () throws(OpenSSLError) -> CertifiedKey in
          try Self.pair(kind, files.names, authority)
        }
      var terms = TrialServer.Terms(identity: pair)
      terms.speaksOldVersions = kind == .oldTLS
      if authority.certificate.issued(pair.certificate) {
        // curl finds the issuer that it asks about in nothing but what the server sends.
        terms.identity =
          CertifiedKey(certificate: pair.certificate, chain: [authority.certificate], key: pair.key) ?? pair
        let question = OCSPRequest(of: pair.certificate, issuedBy: authority.certificate)
        terms.staple = try DemoFailure.making { () throws(OpenSSLError) -> [UInt8] in
          try question.response(
            kind == .revoked ? .revoked : .good, signedBy: authority.key, seconds: Self.days * 86_400)
        }
      }
      if kind == .revoked { try list(pair.certificate, authority, files) }
      do throws(TLSSettingsError) { made[kind] = try TrialServer(terms) } catch {
        throw DemoFailure(text: "can't make the server \(kind.rawValue): \(error)")
      }
    }
    let all = made
    servers.withLock { $0 = all }
  }

  /// The faults that a certificate may have; a fault of the server itself is not one of it.
  private static func pair(
    _ kind: BadServer, _ names: [DemoName], _ authority: CertifiedKey
  ) throws(OpenSSLError) -> CertifiedKey {
    let shown = kind == .wrongName ? [.dns(DemoRole.wrongName)] : names.flatMap { $0.alternatives(for: kind) }
    var builder = CertificateBuilder(
      commonName: "\(kind.rawValue).localhost", .leaf([kind == .wrongUsage ? .clientAuth : .serverAuth]), names: shown,
      days: Self.days)
    let key = try PrivateKey.generate(kind == .weakKey ? .rsa(bits: 1024) : .p256)
    switch kind {
    case .expired:
      builder.notAfter = builder.notBefore - 86_400
      builder.notBefore = builder.notAfter - 30 * 86_400
    case .notYetValid: builder.notBefore += 30 * 86_400
    case .selfSigned: return try builder.selfSigned(key: key)
    case .wrongCA:
      return try builder.signed(
        by: CertificateBuilder(commonName: "somebody else's CA", .authority(pathLength: 0), days: 3650)
          .selfSigned(key: .generate()), key: key)
    case .noIntermediate:
      let intermediate = try CertificateBuilder(
        commonName: "sallyport demo intermediate CA", .authority(pathLength: 0), days: Self.days
      ).signed(by: authority, key: .generate())
      let whole = try builder.signed(by: intermediate, key: key)
      return CertifiedKey(certificate: whole.certificate, key: key) ?? whole
    case .good, .wrongName, .wrongUsage, .weakKey, .oldTLS, .wrongPin, .revoked: break
    }
    return try builder.signed(by: authority, key: key)
  }

  private func list(_ revoked: Certificate, _ authority: CertifiedKey, _ files: DemoFiles) throws(DemoFailure) {
    let list = RevocationListBuilder(revoking: [revoked], number: time(nil), days: Self.days)
    let text = try DemoFailure.making { () throws(OpenSSLError) -> String in try list.pem(signedBy: authority) }
    try files.folder.write(text, to: Self.listName)
  }

  // MARK: Connections

  func start(_ visits: DemoVisits) {
    DemoThread.start { [self] in
      let places = ConnectionLimit(Self.connectionLimit)
      var entries = listeners.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
      while true {
        guard poll(&entries, nfds_t(entries.count), -1) > 0 else { continue }
        for (entry, listener) in zip(entries, listeners) where entry.revents != 0 {
          accept(listener, places, visits)
        }
      }
    }
  }

  private func accept(_ listener: Listener, _ places: ConnectionLimit, _ visits: DemoVisits) {
    let client: (descriptor: Int32, peer: SocketAddress)
    do throws(SocketError) {
      guard let accepted = try Sockets.accept(listener.descriptor) else { return }
      client = accepted
    } catch {
      // Without free descriptors, it waits a second.
      sleep(1)
      return
    }
    guard places.take() else {
      close(client.descriptor)
      return
    }
    let serves = DemoThread.start { [self] in
      serve(client.descriptor, client.peer.host, listener.server, visits)
      places.giveBack()
    }
    if !serves {
      close(client.descriptor)
      places.giveBack()
    }
  }

  private func serve(_ descriptor: Int32, _ client: String, _ own: BadServer?, _ visits: DemoVisits) {
    let kind = own ?? asked(on: descriptor)
    guard let server = servers.withLock({ $0[kind] }) else {
      close(descriptor)
      return
    }
    let outcome = server.serve(descriptor, seconds: Self.secondsEach) { request in
      visits.note(kind, from: client, isAccepted: true, ClientVisit.agent(ofRequest: request))
      let words =
        kind == .good ? "good: \(kind.fault)\n" : "ACCEPTED, and a client has to refuse this server: \(kind.fault)\n"
      return Array(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: \(words.utf8.count)\r\nConnection: close\r\n\r\n\(words)"
          .utf8)
    }
    if case .refused(let reason) = outcome { visits.note(kind, from: client, isAccepted: false, reason) }
  }

  /// By the first label of the name; `good` for any other name, and for a client that asks for none.
  private func asked(on descriptor: Int32) -> BadServer {
    let name = TrialServer.serverName(askedOn: descriptor, seconds: Self.secondsEach)
    return name?.split(separator: ".").first.flatMap { BadServer(rawValue: String($0)) } ?? .good
  }
}
