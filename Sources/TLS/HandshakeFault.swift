import Glibc
import Negotiation
package import Transport

/// What stands behind a handshake that did not complete, in words that OpenSSL's reason does not have.
///
/// The commands that look at one server print it: `probe` and `pin`. It judges nothing: an attacker on the path can make
/// a connection end in any of these ways.
package enum HandshakeFault: Sendable, Equatable {
  /// The server's name has no address.
  case hostNotFound
  /// The proxy on the way made no tunnel to the server: the proxy, and what it said.
  case untunnelled(proxy: String, reason: String)
  /// No connection to the server.
  case unconnected(SocketError)
  /// The server answered with HTTP in the clear.
  case plainHTTP
  /// The server answered with the first line of another protocol.
  case otherProtocol(greeting: String)
  /// The server speaks no TLS version that we offer. `newest`: the newest that it speaks, if a second look found out.
  case noCommonVersion(newest: String?)
  case noCommonCipher
  /// The server has no host of the name that we sent.
  case unknownName
  /// The server refuses a handshake without a name.
  case nameMissing
  case noCommonApplicationProtocol
  /// The server asked for a certificate, and ended the handshake because it got none.
  case certificateMissing
  case certificateRefused
  case closed
  case silent
  /// The server didn't agree to TLS when it was asked in the words of its protocol: `--starttls`.
  case refusedTLS(String)
  /// Bytes came in clear where somebody on the way could have put them, to count as the server's own inside TLS.
  case injectedBeforeTLS(String)

  /// What was seen of the handshake.
  struct Signs {
    var failure: WaitingClient.Failure
    /// The first bytes that the server sent, whatever they are.
    var greeting: [UInt8] = []
    var heardServerHello = false
    var wasAskedForCertificate = false
    /// Whether we have a certificate to present.
    var presents = false
    /// The server's alert: `alert protocol version`.
    var alert: String?
  }

  init?(_ signs: Signs) {
    // The content types of TLS records: RFC 8446 §5.1, and 24 of RFC 6520.
    if let first = signs.greeting.first, !(20...24).contains(first) {
      self = Self.isHTTP(signs.greeting) ? .plainHTTP : .otherProtocol(greeting: Self.firstLine(of: signs.greeting))
      return
    }
    if signs.wasAskedForCertificate, signs.alert != nil || signs.failure == .ended {
      self = signs.presents ? .certificateRefused : .certificateMissing
      return
    }
    switch signs.alert {
    case "alert protocol version": self = .noCommonVersion(newest: nil)
    case "alert handshake failure" where !signs.heardServerHello, "alert insufficient security": self = .noCommonCipher
    case "alert unrecognized name": self = .unknownName
    case "alert no application protocol": self = .noCommonApplicationProtocol
    case .some: return nil
    case nil:
      switch signs.failure {
      case .ended: self = .closed
      case .late: self = .silent
      case .failed(let reason) where reason.contains("unsupported protocol"): self = .noCommonVersion(newest: nil)
      case .failed(let reason) where reason.contains("unexpected eof") || reason.contains("Broken pipe"):
        self = .closed
      case .failed: return nil
      }
    }
  }

  /// A server of HTTP/0.9 sends a page without a status line.
  private static func isHTTP(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes.prefix(5), as: UTF8.self).lowercased()
    return text == "http/" || text == "<!doc" || text == "<html"
  }

  /// At most 60 bytes of the line.
  private static func firstLine(of bytes: [UInt8]) -> String {
    String(decoding: bytes.prefix(60).prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
  }

  /// For programs. A name never changes.
  package var name: String {
    switch self {
    case .hostNotFound: "host-not-found"
    case .unconnected(let error):
      switch error.code {
      case ECONNREFUSED: "connection-refused"
      case ETIMEDOUT: "connect-timeout"
      default: "unreachable"
      }
    case .untunnelled: "proxy-refused"
    case .plainHTTP: "plain-http"
    case .otherProtocol: "other-protocol"
    case .noCommonVersion: "no-common-version"
    case .noCommonCipher: "no-common-cipher"
    case .unknownName: "unknown-name"
    case .nameMissing: "name-missing"
    case .noCommonApplicationProtocol: "no-common-application-protocol"
    case .certificateMissing: "certificate-missing"
    case .certificateRefused: "certificate-refused"
    case .closed: "closed"
    case .silent: "timeout"
    case .refusedTLS: "starttls-refused"
    case .injectedBeforeTLS: "starttls-injection"
    }
  }

  package var words: String {
    switch self {
    case .hostNotFound: "the server's name has no address"
    case .unconnected(let error): "there is no connection to the server: \(error)"
    case .untunnelled(let proxy, let reason): "the proxy \(proxy) makes no tunnel: \(reason)"
    case .plainHTTP: "the server answers plain HTTP, not TLS"
    case .otherProtocol(let greeting): "the server does not answer with TLS but with \"\(greeting)\""
    case .noCommonVersion(let newest):
      newest.map { "the server speaks no TLS version that we offer; its newest is \($0)" }
        ?? "the server speaks no TLS version that we offer"
    case .noCommonCipher: "the server accepts none of the cipher suites and groups that we offer"
    case .unknownName: "the server has no host of the name that it was asked for"
    case .nameMissing: "the server refuses a handshake that names no host, and was sent no name"
    case .noCommonApplicationProtocol: "the server speaks none of the application protocols that we offer"
    case .certificateMissing: "the server requires a client certificate, and we presented none"
    case .certificateRefused: "the server refused the certificate that we presented"
    case .closed: "the server accepted the connection and closed it without an answer"
    case .silent: "the server accepted the connection and did not answer the handshake in time"
    case .refusedTLS(let reason), .injectedBeforeTLS(let reason): reason
    }
  }

  /// `port`: of the server; nil if TLS was negotiated in the words of a protocol, which then needs no mention.
  package func advice(port: UInt16?) -> String {
    guard let port, let kind = likelyProtocol(port: port) else { return advice }
    let option = "--starttls \(kind.rawValue), and proxy_starttls \(kind.rawValue) in a configuration"
    if case .otherProtocol = self { return "the server speaks \(kind.title) in clear first: \(option)" }
    return "if the server speaks \(kind.title) in clear first: \(option). Otherwise, \(advice)"
  }

  package var advice: String {
    switch self {
    case .hostNotFound: "correct the name, or see /etc/hosts and the name servers of /etc/resolv.conf"
    case .unconnected(let error): Self.advice(error)
    case .untunnelled:
      "see the proxy's log and its rules: it must allow CONNECT to this host and port, and know the user of "
        + "--via-user-file or of user_file="
    case .plainHTTP: "use the server's TLS port; if it has none, pass to it with http:// and keep the way to it private"
    case .otherProtocol: "use the port of the TLS server; this one serves another protocol"
    case .noCommonVersion(let newest?) where newest == "TLSv1" || newest == "TLSv1.1":
      "sallyport speaks TLSv1.2 and TLSv1.3: update the server. \(newest) is broken; only `proxy_ssl_protocols \(newest);` "
        + "with `proxy_ssl_ciphers DEFAULT:@SECLEVEL=0;` allows it"
    case .noCommonVersion(let newest?): "allow \(newest) in proxy_ssl_protocols"
    case .noCommonVersion: "compare the versions that the server allows with proxy_ssl_protocols (TLSv1.2 and TLSv1.3)"
    case .noCommonCipher: "compare the server's cipher suites with proxy_ssl_ciphers"
    case .nameMissing:
      "set proxy_ssl_server_name on, and proxy_ssl_name if the name isn't that of proxy_pass; a literal address is never sent"
    case .unknownName:
      "give the name that the server's certificate has: --name NAME, and proxy_ssl_name with proxy_ssl_server_name on"
    case .noCommonApplicationProtocol: "grpc_pass needs a server of HTTP/2, proxy_pass one of HTTP/1.1"
    case .certificateMissing:
      "give one of a CA that the server trusts: --cert FILE --key FILE, and proxy_ssl_certificate with proxy_ssl_certificate_key"
    case .certificateRefused:
      "compare its issuer and its validity with the CAs that the server names; the server's log has the reason"
    case .closed:
      "see the server's log: a firewall, a limit, a PROXY protocol that it expects, or a server that failed ends connections so"
    case .silent:
      "see whether the server is overloaded, speaks first in another protocol, or waits for a PROXY protocol header"
    case .refusedTLS:
      "see whether TLS is switched on in the server, and whether the port is one of this protocol in clear: many servers "
        + "have another port where TLS begins at once"
    case .injectedBeforeTLS:
      "find out who put the bytes there, the server or somebody on the way to it: sallyport would end the connection too"
    }
  }

  private static func advice(_ error: SocketError) -> String {
    switch error.code {
    case ECONNREFUSED:
      "nothing listens at this address and port: see whether the server runs, on which addresses it listens, and the port"
    case ETIMEDOUT:
      "the machine is down, or a firewall drops the connection: see the address, the route and the firewall's rules for the port"
    case EHOSTUNREACH, ENETUNREACH: "this machine has no route to the address: see `ip route` and the address"
    case ENOENT: "there is no such socket: see whether the server runs, and the socket's path"
    case EACCES, EPERM: "this user may not use the socket: run the command as the user that the proxy runs as"
    default: "see whether the server runs and accepts connections from this machine"
    }
  }
}
