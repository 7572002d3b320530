public import Crypto
public import Observability

/// Protocol versions that may be negotiated (`ssl_protocols`, `proxy_ssl_protocols`).
public struct TLSVersions: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }
  public static let tls10 = TLSVersions(rawValue: 1)
  public static let tls11 = TLSVersions(rawValue: 2)
  public static let tls12 = TLSVersions(rawValue: 4)
  public static let tls13 = TLSVersions(rawValue: 8)
  /// nginx's default since 1.27.3.
  public static let standard: TLSVersions = [.tls12, .tls13]
}

/// `ssl_verify_client`.
public enum ClientVerification: String, Sendable, Hashable {
  case off
  case on
  case optional
  /// A certificate is asked for but not judged; who uses it must look at $ssl_client_verify.
  case optionalNoCA = "optional_no_ca"
}

/// `ssl_verify_reject`: how a client that may not in is told.
public enum ClientRejection: String, Sendable, Hashable, CaseIterable {
  /// By a page, 400 or 403, as nginx does.
  case http
  /// By an alert, before any HTTP.
  case handshake
}

/// What the rules on clients of a server block (`ssl_client_allow`, `ssl_client_deny`) mean for its handshakes. The
/// rules themselves are judged by who chooses the server block.
public struct HandshakeRules: Sendable, Hashable {
  /// The same for the same rules, whatever their order; part of the client policy.
  public var fingerprint: [UInt8]
  /// Who has no certificate is denied.
  public var needsCertificate: Bool
  public init(fingerprint: [UInt8], needsCertificate: Bool) {
    self.fingerprint = fingerprint
    self.needsCertificate = needsCertificate
  }
}

/// One `name value` pair of `ssl_conf_command` or `proxy_ssl_conf_command`.
public struct ConfCommand: Sendable, Hashable {
  public var name: String
  public var value: String
  @NotCompared public var location: SourceLocation
  public init(name: String, value: String, location: SourceLocation) {
    self.name = name
    self.value = value
    self.location = location
  }
}

/// One `ssl_certificate` with its `ssl_certificate_key`; without the key it is a PKCS#12 or a PEM that holds both.
public struct CertificateSource: Sendable, Hashable {
  public var certificate: MaterialReference
  public var key: MaterialReference?
  public init(certificate: MaterialReference, key: MaterialReference?) {
    self.certificate = certificate
    self.key = key
  }
}

/// Where sessions are kept for resumption (`ssl_session_cache`).
public enum SessionCacheSettings: Sendable, Hashable {
  /// Reuse strictly refused.
  case off
  /// nginx's default: stored nowhere; with us tickets still name a session in the workers' common store.
  case none
  /// `sessions`: the most that are kept.
  case builtin(sessions: Int)
  /// Shared by all workers; `bytes` bounds it.
  case shared(name: String, bytes: Int)
}

/// `ssl_stapling` and what goes with it.
public enum StaplingSettings: Sendable, Hashable {
  case off
  /// `ssl_stapling_file`: a response as DER.
  case file(MaterialReference)
  /// Asked of this responder, or where there is none of the one that the certificate names.
  case responder(StatusResponder?)
}

/// What one server block says of TLS towards clients. Parsed, not yet loaded: files are named, not read.
public struct ServerTLSSettings: Sendable, Hashable {
  public var certificates: [CertificateSource] = []
  public var passwordFile: MaterialReference?
  /// CAs whose names are sent to the client (`ssl_client_certificate`).
  public var clientCertificate: MaterialReference?
  /// CAs that count too but are not named (`ssl_trusted_certificate`).
  public var trustedCertificate: MaterialReference?
  /// Revocation lists that count for clients (`ssl_crl`).
  public var revocationLists: [MaterialReference] = []
  public var verification: ClientVerification = .off
  public var rejection = ClientRejection.http
  /// nil: the server block has no rules of its own on clients; its locations may.
  public var rules: HandshakeRules?
  /// nginx's `ssl_verify_depth`: intermediates allowed are one less than OpenSSL's depth counts.
  public var verifyDepth = 1
  public var versions: TLSVersions = .standard
  /// OpenSSL cipher list for TLS 1.2 and below; nil: see `effectiveCiphers`.
  public var ciphers: String?
  public var preferServerCiphers = false
  /// nil is nginx's `auto`.
  public var curves: String?
  /// nil: OpenSSL's own, as large as the certificate's key asks for.
  public var dhParameters: MaterialReference?
  public var confCommands: [ConfCommand] = []
  public var rejectsHandshake = false
  public var clientStatus = ClientStatusSettings()
  public var stapling = StaplingSettings.off
  /// `ssl_early_data`; see `earlyDataHindrance`.
  public var earlyData = false
  public var sessionCache: SessionCacheSettings = .none
  public var sessionTickets = true
  /// `ssl_session_ticket_key`: the first one makes tickets, all of them open them. Empty: tickets only name a session
  /// that this process keeps.
  public var ticketKeys: [MaterialReference] = []
  /// A file that changes is taken up without a signal (`ssl_reload`).
  public var reloads = true
  /// Seconds.
  public var sessionTimeout = 300
  /// Bytes of plain text a record may carry, 512 to 16384 (`ssl_buffer_size`).
  public var bufferSize = 16384

  public init() {}
}

/// What a location says of TLS towards an upstream. Parsed, not yet loaded.
///
/// Equal settings share a context, and so sessions and kept connections, wherever they stand; unequal ones never do.
public struct UpstreamTLSSettings: Sendable, Hashable {
  /// What the upstream must show.
  public var trust = TrustSettings.anybody
  public var verifyDepth = 1
  /// Revocation lists that count for upstreams (`proxy_ssl_crl`).
  public var revocationLists: [MaterialReference] = []
  /// A file that changes is taken up without a signal (`ssl_reload`).
  public var reloads = true
  public var certificate: CertificateSource?
  public var passwordFile: MaterialReference?
  /// SNI is sent (`proxy_ssl_server_name`).
  public var sendsServerName = false
  public var reusesSessions = true
  public var versions: TLSVersions = .standard
  public var ciphers: String?
  public var confCommands: [ConfCommand] = []
  /// Where the location says so: for messages.
  @NotCompared public var location: SourceLocation?

  public init() {}
}

/// One argument of `proxy_ssl_pin`, as spelt, with the folder that relative names resolve against.
public struct PinSource: Sendable, Hashable {
  public var spelling: String
  public var scope: Pin.Scope
  public var folder: String
  @NotCompared public var location: SourceLocation
  public init(spelling: String, scope: Pin.Scope, folder: String, location: SourceLocation) {
    self.spelling = spelling
    self.scope = scope
    self.folder = folder
    self.location = location
  }
}

extension TLSVersions {
  /// Suites of who says none: with forward secrecy and authenticated encryption. Not nginx's `HIGH:!aNULL:!MD5` and
  /// `DEFAULT`, whose CBC suites are what Lucky Thirteen (CVE-2013-0169) needs; those count where older versions are asked
  /// for, which have nothing else.
  func ciphers(old: String) -> String {
    isDisjoint(with: [.tls10, .tls11]) ? "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aDSS" : old
  }
}

extension ServerTLSSettings {
  var effectiveCiphers: String { ciphers ?? versions.ciphers(old: "HIGH:!aNULL:!MD5") }
}

extension UpstreamTLSSettings {
  var effectiveCiphers: String { ciphers ?? versions.ciphers(old: "DEFAULT") }
}
