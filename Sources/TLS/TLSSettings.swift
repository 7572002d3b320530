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
  /// The server requests a certificate but does not require a trusted CA; an application that relies on the certificate
  /// must check $ssl_client_verify.
  case optionalNoCA = "optional_no_ca"
}

/// `proxy_ssl_revoked_connections`: what becomes of requests and tunnels in progress whose upstream is not trusted any
/// more. No further request goes to it in any case.
public enum RevokedUpstream: String, Sendable, Hashable, CaseIterable {
  /// They go on, and the error log tells of each.
  case keep
  /// They are cut.
  case close
}

/// `ssl_revoked_connections`: what becomes of requests in progress whose client is refused by now.
public enum RevokedConnections: Sendable, Hashable {
  /// They are cut with the reload.
  case close
  /// They may go on for this many milliseconds and are cut then. Tunnels are cut with the reload.
  case drain(Int)

  /// Milliseconds, if the configuration names no time.
  public static let standardDrain = 5000
}

/// `ssl_verify_reject`: how the server refuses a client.
public enum ClientRejection: String, Sendable, Hashable, CaseIterable {
  /// With an HTTP response, 400 or 403, as nginx does.
  case http
  /// With a TLS alert, before any HTTP.
  case handshake
  /// Not at all: a refusal is only reported (`ssl_verify_report_only`). This is part of the client policy, so that no
  /// client gets in this way where others are refused.
  case reportOnly = "report_only"
}

/// What a server block's access rules on clients (`ssl_client_allow`, `ssl_client_deny`) mean for its handshakes. The
/// ServerChooser evaluates the rules themselves.
public struct HandshakeRules: Sendable, Hashable {
  /// Equal for equal rules, whatever their order. It is part of the client policy.
  public var fingerprint: [UInt8]
  /// Whether the rules deny a client that has no certificate.
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

  /// Whether `Options SessionTicket` turns session tickets on, or `-SessionTicket` off; nil: the command says nothing of
  /// them. OpenSSL can't be asked: sallyport makes its tickets itself, and so tells OpenSSL to make none.
  public var sessionTickets: Bool? {
    guard name.lowercased() == "options" else { return nil }
    let options = value.split(separator: ",").map { $0.filter { $0 != " " }.lowercased() }
    return options.compactMap { option in
      switch option {
      case "sessionticket", "+sessionticket": true
      case "-sessionticket": false
      default: nil
      }
    }.last
  }
}

/// One `ssl_certificate` with its `ssl_certificate_key`. Without the key, the certificate file is a PKCS#12 file, or a
/// PEM file that holds both.
public struct CertificateSource: Sendable, Hashable {
  public var certificate: MaterialReference
  public var key: MaterialReference?
  /// The file may be missing: the process itself will write it (`$acme_certificate`).
  public var isAwaited = false
  public init(certificate: MaterialReference, key: MaterialReference?) {
    self.certificate = certificate
    self.key = key
  }
}

/// Where sessions are kept for resumption (`ssl_session_cache`).
public enum SessionCacheSettings: Sendable, Hashable {
  /// The server strictly refuses to resume sessions.
  case off
  /// nginx's default: nginx stores no sessions. In sallyport, tickets still name a session in the workers' common
  /// store.
  case none
  /// `sessions`: the largest number of kept sessions.
  case builtin(sessions: Int)
  /// All workers share the cache; `bytes` bounds it.
  case shared(name: String, bytes: Int)
}

/// The settings of `ssl_stapling` and its companion directives.
public enum StaplingSettings: Sendable, Hashable {
  case off
  /// `ssl_stapling_file`: a DER response.
  case file(MaterialReference)
  /// Ask this responder; nil: the one that the certificate names.
  case responder(StatusResponder?)
}

/// What a server block takes of the names that clients offer by ALPN (RFC 7301).
public enum AcceptedProtocols: Sendable, Hashable {
  /// HTTP/1.1, and HTTP/2 where `offersHTTP2` says so.
  case http
  /// The extension is ignored: a server of `stream` without `ssl_alpn`.
  case any
  /// The first of these that the client offers; a client that offers only others is refused (`ssl_alpn`). 1 to 255 bytes
  /// each.
  case names([String])

  /// The names as the extension has them; nil if they are not compared.
  var list: [UInt8]? {
    guard case .names(let names) = self else { return nil }
    return OfferedProtocols(names.map { Array($0.utf8) }).list
  }
}

/// The names that ALPN offers, in order.
public struct OfferedProtocols: Sendable, Hashable {
  /// Each name after its length (RFC 7301 §3.1).
  let list: [UInt8]
  public var isEmpty: Bool { list.isEmpty }

  /// A name of another length than 1 to 255 bytes is left out.
  public init(_ names: [[UInt8]]) {
    list = names.filter { (1...255).contains($0.count) }.flatMap { [UInt8(truncatingIfNeeded: $0.count)] + $0 }
  }
}

/// The TLS settings of one server block, for clients. They are parsed but not loaded: they name files and hold no
/// contents.
public struct ServerTLSSettings: Sendable, Hashable {
  public var presented: [PresentedCertificate] = []
  /// nil: `ssl_certificate_cache off`.
  public var certificateCache: CertificateCacheSettings?
  public var passwordFile: MaterialReference?
  /// CAs whose names the server sends to clients (`ssl_client_certificate`).
  public var clientCertificate: MaterialReference?
  /// CAs that are trusted too, whose names the server does not send (`ssl_trusted_certificate`).
  public var trustedCertificate: MaterialReference?
  /// CRLs that apply to clients (`ssl_crl`).
  public var revocationLists: [MaterialReference] = []
  /// CRLs that are fetched (`ssl_crl http://…`, `ssl_crl_fetch`).
  public var revocationFetch = RevocationFetch()
  /// Every CA of a client's chain must have a revocation list, even if none could be taken.
  var needsLists: Bool { revocationFetch.isOn || !revocationLists.isEmpty }
  public var verification: ClientVerification = .off
  /// What clients' own certificates must match (`ssl_client_pin`): beside the CAs if there are any, else in their place.
  public var clientPins: PinSettings?
  public var clientPurpose = ClientPurpose.client
  public var rejection = ClientRejection.http
  public var revokedConnections = RevokedConnections.close
  /// nil: the server block itself has no access rules on clients. Its locations may have some.
  public var rules: HandshakeRules?
  /// What judges clients beside these settings, and decides nothing (`ssl_verify_candidate`); nil: nothing does.
  public var candidate: CandidateSettings?
  /// nginx's `ssl_verify_depth`: the largest number of intermediates between a client's leaf and a trust anchor.
  public var verifyDepth = 1
  public var versions: TLSVersions = .standard
  /// OpenSSL cipher list for TLS 1.2 and below; nil: see `effectiveCiphers`.
  public var ciphers: String?
  public var preferServerCiphers = false
  /// nil is nginx's `auto`: `KeyExchange.standard`.
  public var curves: String?
  /// The directive that gives `curves`, for messages.
  @NotCompared public var curvesDirective: String = ""
  /// nil: there are no DHE suites in TLS 1.2 and earlier.
  public var dhParameters: MaterialReference?
  public var confCommands: [ConfCommand] = []
  public var rejectsHandshake = false
  public var clientStatus = ClientStatusSettings()
  public var stapling = StaplingSettings.off
  /// `ssl_early_data`; see `earlyDataHindrance`.
  public var earlyData = false
  /// `ssl_certificate_compression`; see `compressionHindrance`.
  public var compressesCertificates = false
  /// `http2`: ALPN offers HTTP/2 before HTTP/1.1.
  public var offersHTTP2 = false
  public var protocols = AcceptedProtocols.http
  public var sessionCache: SessionCacheSettings = .none
  public var sessionTickets = true
  /// `ssl_session_ticket_key`: the first key encrypts tickets, every key decrypts them. Empty: tickets only name a
  /// session that this process keeps.
  public var ticketKeys: [MaterialReference] = []
  /// The store that has them instead (`store:NAME`).
  public var ticketStore: String?
  /// Whether changed files are reloaded without a signal (`ssl_reload`).
  public var reloads = true
  /// Seconds.
  public var sessionTimeout = 300
  /// The largest plaintext of a record in bytes, 512 to 16384 (`ssl_buffer_size`).
  public var bufferSize = 16384

  public init() {}

  /// Whether only pins say which clients get in (`ssl_client_pin` without CAs).
  public var reliesOnPins: Bool { clientPins != nil && clientCertificate == nil && trustedCertificate == nil }

  /// The certificates that are loaded with the configuration.
  public var certificates: [CertificateSource] {
    presented.compactMap { if case .fixed(let source) = $0 { source } else { nil } }
  }

  /// The certificates that handshakes load.
  public var namedCertificates: [NamedCertificate] {
    presented.compactMap { if case .named(let named) = $0 { named } else { nil } }
  }
}

/// The next trust of a server block, in a box: settings can't contain themselves.
public indirect enum CandidateSettings: Sendable, Hashable {
  case trust(ServerTLSSettings)

  public var settings: ServerTLSSettings {
    switch self {
    case .trust(let settings): settings
    }
  }
}

extension ServerTLSSettings {
  /// The settings as a candidate: only what judges clients. Nothing is presented, and no session is kept.
  public var asCandidate: CandidateSettings {
    var trust = self
    trust.candidate = nil
    (trust.presented, trust.certificateCache, trust.dhParameters) = ([], nil, nil)
    (trust.stapling, trust.sessionCache, trust.sessionTickets) = (.off, .off, false)
    (trust.ticketKeys, trust.ticketStore, trust.earlyData) = ([], nil, false)
    (trust.protocols, trust.offersHTTP2) = (.http, false)
    return .trust(trust)
  }
}

/// The TLS settings of a location, for upstreams. They are parsed but not loaded.
///
/// Equal settings share a context, and with it sessions and idle connections, wherever they are written. Unequal
/// settings never share one.
public struct UpstreamTLSSettings: Sendable, Hashable {
  /// What the policy demands of the upstream.
  public var trust = TrustSettings.anybody
  public var verifyDepth = 1
  /// CRLs that apply to upstreams (`proxy_ssl_crl`).
  public var revocationLists: [MaterialReference] = []
  /// Whether changed files are reloaded without a signal (`ssl_reload`).
  public var reloads = true
  public var certificate: CertificateSource?
  public var passwordFile: MaterialReference?
  /// Whether ALPN offers HTTP/2, and nothing else.
  public var offersHTTP2 = false
  /// What ALPN offers of the protocols of `stream` (`proxy_ssl_alpn`), 1 to 255 bytes each; empty: the extension isn't
  /// sent.
  public var protocols: [String] = []
  /// Whether SNI is sent (`proxy_ssl_server_name`).
  public var sendsServerName = false
  public var reusesSessions = true
  public var revokedUpstream = RevokedUpstream.keep
  public var versions: TLSVersions = .standard
  public var ciphers: String?
  /// nil: `KeyExchange.standard` (`proxy_ssl_ecdh_curve`).
  public var curves: String?
  /// The directive that gives `curves`, for messages.
  @NotCompared public var curvesDirective: String = ""
  public var confCommands: [ConfCommand] = []
  /// Where the configuration sets this, for messages.
  @NotCompared public var location: SourceLocation?

  public init() {}
}

/// One argument of `proxy_ssl_pin` or `ssl_client_pin`, as written, with the directory that resolves relative names.
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
  /// Returns the default cipher suites, for settings that name no list: those with forward secrecy and authenticated
  /// encryption.
  ///
  /// nginx's defaults `HIGH:!aNULL:!MD5` and `DEFAULT` include CBC suites, which Lucky Thirteen (CVE-2013-0169) needs.
  /// They apply only when the settings enable older versions, which have no other suites.
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
