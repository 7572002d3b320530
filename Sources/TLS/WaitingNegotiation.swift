import Bytes
import Glibc
import Negotiation
import Transport

extension WaitingClient {
  /// Has the server agree to TLS, in the words of its protocol. Returns why it didn't; nil: TLS begins with the next byte.
  func negotiate(_ kind: NegotiatedProtocol) -> HandshakeFault? {
    var talk = UpstreamNegotiation(kind, goal: .tls, name: Sockets.hostName)
    guard send(talk.opening) else { return .closed }
    // All that has come is read at once, so that bytes behind the agreement are seen.
    var room = [UInt8](repeating: 0, count: UpstreamNegotiation.most)
    var pending: [UInt8] = []
    while true {
      guard deadline.wait(for: descriptor, Int16(POLLIN)) else { return .silent }
      let count = recv(descriptor, &room, room.count, Int32(truncatingIfNeeded: MSG_DONTWAIT))
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      guard count > 0 else { return .closed }
      pending += room.prefix(count)
      let step = pending.withUnsafeBytes { talk.take($0) }
      pending.removeFirst(step.consumed)
      guard send(step.reply) else { return .closed }
      switch step.next {
      case .more: continue
      case .beginTLS, .done: return nil
      case .end(let reason): return HandshakeFault(negotiationEndedBy: reason)
      }
    }
  }
}

extension WaitingClient {
  /// Has the proxy of `origin` open a tunnel to the server. Returns why it didn't; nil: what follows is said to the server,
  /// or there is no proxy. `authority`: `HOST:PORT` of the server.
  func openTunnel(to authority: String, from origin: ConnectionOrigin) -> HandshakeFault? {
    guard let proxy = origin.proxy else { return nil }
    func fault(_ reason: String) -> HandshakeFault { .untunnelled(proxy: proxy.name, reason: reason) }
    let field = proxy.credentials?.field.withUnsafeBytes { Array($0) } ?? []
    var talk = TunnelNegotiation(authority: authority, authorization: field)
    guard send(talk.opening) else { return fault("it closed the connection") }
    var pending: [UInt8] = []
    while true {
      guard deadline.wait(for: descriptor, Int16(POLLIN)) else { return fault("it doesn't answer in time") }
      // Byte by byte, because the server may speak first in the tunnel.
      var byte: UInt8 = 0
      let count = recv(descriptor, &byte, 1, Int32(truncatingIfNeeded: MSG_DONTWAIT))
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      guard count > 0 else { return fault("it closed the connection") }
      pending.append(byte)
      let step = pending.withUnsafeBytes { talk.take($0) }
      pending.removeFirst(step.consumed)
      switch step.next {
      case .more: continue
      case .beginTLS, .done: return send(origin.header) ? nil : fault("it closed the connection")
      case .end(let reason): return fault(reason)
      }
    }
  }
}

extension HandshakeFault {
  init(negotiationEndedBy reason: String) {
    let words = reason.replacing("the upstream server", with: "the server")
    self =
      reason == UpstreamNegotiation.injection || reason == UpstreamNegotiation.earlyAnswer
      ? .injectedBeforeTLS(words) : .refusedTLS(words)
  }

  /// The protocol whose words in clear the server may want before TLS. `port`: of the server.
  func likelyProtocol(port: UInt16?) -> NegotiatedProtocol? {
    switch self {
    case .otherProtocol(let greeting): NegotiatedProtocol(greeting: greeting)
    // A server of these protocols takes a ClientHello for a message without sense, and closes.
    case .closed, .silent, .noCommonApplicationProtocol:
      NegotiatedProtocol.allCases.first { $0.port == port }
    default: nil
    }
  }
}

extension NegotiatedProtocol {
  /// Its usual port.
  package var port: UInt16 {
    switch self {
    case .postgres: 5432
    case .smtp: 25
    case .imap: 143
    case .pop3: 110
    case .ldap: 389
    }
  }

  /// As people write it.
  package var title: String {
    switch self {
    case .postgres: "PostgreSQL"
    case .smtp: "SMTP"
    case .imap: "IMAP"
    case .pop3: "POP3"
    case .ldap: "LDAP"
    }
  }

  /// `greeting`: the first line of a server that speaks first. FTP has the status of SMTP.
  init?(greeting: String) {
    let line = greeting.uppercased()
    if line.hasPrefix("220"), line.contains("SMTP") || line.contains("MAIL"), !line.contains("FTP") {
      self = .smtp
    } else if line.hasPrefix("* OK") || line.hasPrefix("* PREAUTH") {
      self = .imap
    } else if line.hasPrefix("+OK") {
      self = .pop3
    } else {
      return nil
    }
  }
}
