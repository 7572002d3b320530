import Crypto
import Forward
import Language
import TLS
import Traffic

private let httpLevels: DirectiveContexts = [.http, .server]
private let levels = httpLevels.union(.everyStream)
private let trustLevels = levels.union(.candidate)

/// TLS towards clients (nginx: ngx_http_ssl_module).
enum ServerTLS: Feature {
  static let chapter = Chapter.tls

  static let obsoleteSwitch = DirectiveEntry.value(
    "ssl", httpLevels, .flag, "off",
    "Obsolete: use `listen … ssl`. `on` turns on TLS for every `listen` of the server.",
    example: "ssl on;")
  static let certificate = DirectiveEntry.list(
    "ssl_certificate", levels, .words(1...1, "MATERIAL"), "",
    "The server's certificate chain: PEM, DER or PKCS#12, or `spiffe:` with its key from the SPIFFE agent; repeatable for several kinds of keys. With variables (`$ssl_server_name`, `$server_name`, `$server_addr`, `$server_port`, `$remote_addr`), each handshake reads the file as the serving user. If it can't, the handshake fails.",
    example: "ssl_certificate server.crt;"
  ).option("--cert")
  static let certificateKey = DirectiveEntry.list(
    "ssl_certificate_key", levels, .words(1...1, "MATERIAL"), "",
    "The key of the certificate at the same position; in a token: store:pkcs11:… or engine:pkcs11:….",
    example: "ssl_certificate_key server.key;"
  ).option("--key")
  static let certificateCache = Row<ServerTLSSettings>.line(
    "ssl_certificate_cache", levels, .words(1...3, "off | max=NUMBER [inactive=TIME] [valid=TIME]"), initial: "off",
    "How many certificates with variables, and keys of such, stay in memory: a certificate and its key count as two. Those not used for `inactive` (10s) are dropped. After `valid` (60s), sallyport looks whether the files have changed.",
    example: "ssl_certificate_cache max=1000 inactive=1h valid=1m;", trust: .none
  ) { $0.certificateCache = CertificateCacheSettings.read($1, &$2) }
  static let passwordFile = Row<ServerTLSSettings>.material(
    "ssl_password_file", levels, \.passwordFile, "A file with pass phrases for keys and PKCS#12, one on each line.",
    example: "ssl_password_file server.pass;"
  ).option("--password-file")
  static let clientCertificate = Row<ServerTLSSettings>.material(
    "ssl_client_certificate", trustLevels, \.clientCertificate,
    "The CAs that verify client certificates; the server sends their names to the client. `spiffe:` takes the bundles of the SPIFFE agent, each for its own trust domain, `spiffe://example.org` that of one.",
    example: "ssl_client_certificate clients-ca.crt;", trust: .told
  ).option("--client-ca")
  static let trustedCertificate = Row<ServerTLSSettings>.material(
    "ssl_trusted_certificate", trustLevels, \.trustedCertificate,
    "Further CAs that verify client certificates; the server doesn't send their names.",
    example: "ssl_trusted_certificate old-ca.crt;", trust: .told)
  static let revocationList = DirectiveEntry.list(
    "ssl_crl", trustLevels, .words(1...Int.max, "MATERIAL | http://… …"), "",
    "Complete revocation lists (CRLs) of the client CAs; a file can contain several. Every CA of a chain needs one. A list at a URL is fetched, verified by the client CAs, kept in `ssl_crl_cache` and fetched again before it ends; until the first came, clients of its CA are refused.",
    example: "ssl_crl clients-ca.crl;", trust: .told
  ).option("--crl")
  static let revocationFetch = DirectiveEntry.value(
    "ssl_crl_fetch", levels, .words(1...Int.max, "on | off | HOST[:PORT] …"), "off",
    "Whether to fetch the revocation lists that clients' certificates name (distribution points), once such a certificate has verified in all else. `on` fetches from all hosts, but from no address of this machine or its link; hosts that are named are the only ones, and may be anywhere. Until the list came, the client is refused.",
    example: "ssl_crl_fetch crl.example.com;")
  static let revocationCache = DirectiveEntry.value(
    "ssl_crl_cache", levels, .words(1...2, "FOLDER [refresh=TIME]"), "",
    "The folder (0700) that keeps fetched revocation lists, and the longest time between two requests for one (1h). It is needed where a list is fetched.",
    example: "ssl_crl_cache /var/cache/sallyport/crl refresh=10m;", trust: .none)
  static let verification = Row<ServerTLSSettings>.choice(
    "ssl_verify_client", trustLevels, [.on, .off, .optional, .optionalNoCA], \.verification,
    "Whether a client needs a certificate.", example: "ssl_verify_client on;", trust: .told
  ).option("--verify")
  static let rejection = Row<ServerTLSSettings>.choice(
    "ssl_verify_reject", httpLevels, [.http, .handshake], \.rejection,
    "Refuses a client with an error page (400, 403), or with a TLS alert before any HTTP.",
    example: "ssl_verify_reject handshake;")
  static let reportOnly = DirectiveEntry.value(
    "ssl_verify_report_only", levels, .flag, "off",
    "Lets in clients that ssl_verify_client, revocation, ssl_client_allow or ssl_client_deny would refuse. error.log, $ssl_client_verdict and the metrics tell of them. Upstreams get no data of a certificate that didn't verify.",
    example: "ssl_verify_report_only on;", trust: .told)
  static let curves = Row<ServerTLSSettings>.text(
    "ssl_ecdh_curve", levels, "CURVES", \.curves, absence: "auto",
    "The groups for the key exchange, in order of preference. auto: X25519, P-256 and P-384, and from OpenSSL 3.5 on before"
      + " them X25519MLKEM768, which is post-quantum.",
    example: "ssl_ecdh_curve X25519:P-256;", trust: .told)
  static let ticketKey = Row<ServerTLSSettings>.lines(
    "ssl_session_ticket_key", levels, .words(1...1, "MATERIAL"),
    "48 or 80 random bytes that encrypt session tickets. The first key encrypts new tickets, all keys decrypt tickets. Several machines can share them.",
    example: "ssl_session_ticket_key ticket.key;"
  ) { readTicketKeys($1, &$0, &$2) }
  static let status = Row<ServerTLSSettings>.choice(
    "ssl_ocsp", levels, [.on, .off, .leaf], \.clientStatus.extent,
    "Whether to check client certificates by OCSP: `on` checks every certificate of the chain, `leaf` only the client's own.",
    example: "ssl_ocsp leaf;")
  static let stapling = DirectiveEntry.value(
    "ssl_stapling", levels, .flag, "off", "Whether to staple the OCSP response for the server's own certificate.",
    example: "ssl_stapling on;")
  static let stapledFile = DirectiveEntry.value(
    "ssl_stapling_file", levels, .words(1...1, "MATERIAL"), "",
    "A file with the OCSP response as DER; sallyport then doesn't ask a responder.",
    example: "ssl_stapling_file server.ocsp;")
  static let staplingResponder = DirectiveEntry.value(
    "ssl_stapling_responder", levels, .words(1...1, "URL"), "",
    "The OCSP responder to ask, instead of the one that the server's certificate names. It may be anywhere; one that a"
      + " certificate names is asked at no address of this machine or its link.",
    example: "ssl_stapling_responder http://ocsp.example/;")
  static let reload = Row<ServerTLSSettings>.flag(
    "ssl_reload", .everyHTTP.union(.everyStream), \.reloads,
    "Whether to load changed files of keys, certificates, CAs, CRLs, pins and pass phrases without a signal. With `off`, the loaded files stay in use until HUP.",
    example: "ssl_reload off;")
  static let earlyData = Row<ServerTLSSettings>.flag(
    "ssl_early_data", httpLevels, \.earlyData,
    "Whether to accept TLS 1.3 early data, for requests with safe methods only, marked `Early-Data: 1`. Other requests wait for the end of the handshake.",
    example: "ssl_early_data on;", trust: .told)
  static let compression = Row<ServerTLSSettings>.flag(
    "ssl_certificate_compression", levels, \.compressesCertificates,
    "Whether to send the server's certificates compressed (RFC 8879), and to take clients' certificates so. Needs OpenSSL 3.2 or later with zlib, zstd or brotli; no effect with `ssl_stapling`.",
    example: "ssl_certificate_compression on;", trust: .none)

  static let directives = rows.entries
  static let rows: [Row<ServerTLSSettings>] = [
    Row(obsoleteSwitch), Row(certificate), Row(certificateKey), certificateCache, passwordFile, clientCertificate,
    trustedCertificate, Row(revocationList), Row(revocationFetch), Row(revocationCache), verification, rejection,
    .inert(
      "ssl_verify_reject", .everyStream, .oneOf(["handshake"]),
      because: "a client of stream that is refused gets a TLS alert: its protocol has no page for that"),
    Row(reportOnly),
    .line(
      "ssl_revoked_connections", httpLevels, .words(1...2, "close | drain [TIME]"), initial: "close",
      "What happens to the requests in progress of a client that is refused by now, after a reload or because its certificate or a revocation list has ended: `close` cuts them at once, `drain` after a time (5s) in which a response can end. Both cut the client's tunnels at once.",
      example: "ssl_revoked_connections drain 10s;"
    ) { $0.revokedConnections = revokedConnections($1, &$2) },
    .number(
      "ssl_verify_depth", trustLevels, 0...100, \.verifyDepth, "The maximum length of a client's chain.",
      example: "ssl_verify_depth 2;", trust: .told),
    .line(
      "ssl_protocols", levels, .someOf(["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]), initial: "TLSv1.2 TLSv1.3",
      "The TLS versions that can be negotiated.", example: "ssl_protocols TLSv1.3;", trust: .told
    ) { tls, line, _ in tls.versions = TLSVersions(line) },
    .text(
      "ssl_ciphers", levels, "CIPHERS", \.ciphers,
      initial: "ECDHE, with ssl_dhparam also DHE, with AES-GCM or ChaCha20",
      "OpenSSL's cipher list for TLS 1.2 and earlier; with TLS 1.1 or earlier, the default is `HIGH:!aNULL:!MD5`.",
      example: "ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;", trust: .told),
    .flag(
      "ssl_prefer_server_ciphers", levels, \.preferServerCiphers,
      "Whether the server's order of ciphers takes precedence.",
      example: "ssl_prefer_server_ciphers on;"),
    curves,
    .material(
      "ssl_dhparam", levels, \.dhParameters,
      "DH parameters for DHE suites of TLS 1.2 and earlier, 2048 bits or more. Without them, as in nginx, there are no such suites.",
      example: "ssl_dhparam dh.pem;"),
    .lines(
      "ssl_conf_command", levels, .words(2...2, "NAME VALUE"), "An OpenSSL configuration command (SSL_CONF).",
      example: "ssl_conf_command Options PrioritizeChaCha;"
    ) { tls, lines, _ in tls.confCommands = lines.map { ConfCommand($0) } },
    .flag(
      "ssl_reject_handshake", levels, \.rejectsHandshake,
      "Whether to refuse every handshake for a name of this server.",
      example: "ssl_reject_handshake on;", trust: .told),
    .line(
      "ssl_session_cache", levels, .words(1...2, "off | none | [builtin[:SIZE]] [shared:NAME:SIZE]"), initial: "none",
      "Where sallyport keeps sessions for resumption.", example: "ssl_session_cache shared:tls:10m;"
    ) { $0.sessionCache = sessionCache($1, &$2) },
    .flag(
      "ssl_session_tickets", levels, \.sessionTickets, "Whether to issue session tickets.",
      example: "ssl_session_tickets off;"
    ),
    .seconds(
      "ssl_session_timeout", levels, \.sessionTimeout,
      "How long a client can resume a session, from its last full handshake on: a resumption begins no new time.",
      example: "ssl_session_timeout 1h;"),
    ticketKey, status,
    .line(
      "ssl_ocsp_cache", levels, .words(1...1, "off | shared:NAME:SIZE"), initial: "off",
      "Where sallyport keeps OCSP responses about clients.", example: "ssl_ocsp_cache shared:ocsp:1m;"
    ) { $0.clientStatus.cacheEntries = statusCache($1, &$2) },
    .line(
      "ssl_ocsp_responder", levels, .words(1...1, "URL"),
      "The OCSP responder to ask, instead of the one that a certificate names. It may be anywhere; one that a certificate"
        + " names is asked at no address of this machine or its link.",
      example: "ssl_ocsp_responder http://ocsp.example/;"
    ) { $0.clientStatus.responder = responder($1, &$2) },
    Row(stapling), Row(stapledFile), Row(staplingResponder),
    .inert("ssl_stapling_verify", levels, because: "a response is always verified before it is stapled"),
    reload, earlyData, compression,
    .size(
      "ssl_buffer_size", httpLevels, \.bufferSize,
      limits: (512...16384, "a TLS record carries 512 to 16384 bytes (16k)"), "The plain-text size of one TLS record.",
      example: "ssl_buffer_size 4k;"),
  ]
}

extension ServerTLSSettings: RowSettings {}
