import Crypto
import Forward
import Language
import TLS
import Traffic

private let levels = DirectiveContexts.everyHTTP.union(.everyStream)

/// TLS towards upstreams (nginx: ngx_http_proxy_module; the directives for pins are sallyport's own).
enum UpstreamTLS: PassFeature {
  static let chapter = Chapter.upstreamTLS
  static let kinds: Set<TrafficKind> = [.http, .stream]

  static let verify = DirectiveEntry.value(
    "proxy_ssl_verify", levels, .flag, "on once anything is said of trust", "Whether the chain must verify.",
    example: "proxy_ssl_verify on;", trust: .told)
  static let trustedCertificate = DirectiveEntry.value(
    "proxy_ssl_trusted_certificate", levels, .words(1...1, "MATERIAL"), "",
    "The CAs that verify upstream certificates. `spiffe:` takes the bundles of the SPIFFE agent, `spiffe://example.org` that of one trust domain; then `proxy_ssl_spiffe_id` says which IDs count.",
    example: "proxy_ssl_trusted_certificate upstream-ca.crt;",
    trust: .told
  ).option("--upstream-ca")
  static let revocationList = Row<UpstreamTLSSettings>.lines(
    "proxy_ssl_crl", levels, .words(1...Int.max, "MATERIAL …"),
    "Complete revocation lists (CRLs) of the upstream's CAs. Every CA of a chain needs one.",
    example: "proxy_ssl_crl upstream-ca.crl;"
  ) { tls, lines, builder in tls.revocationLists = lines.flatMap { builder.materials($0) } }
  static let trustSystem = DirectiveEntry.value(
    "proxy_ssl_trust_system", levels, .flag, "off when a file is given", "Whether to trust the system's CAs too.",
    example: "proxy_ssl_trust_system on;")
  static let verifyName = DirectiveEntry.value(
    "proxy_ssl_verify_name", levels, .flag, "on where the chain is verified",
    "Whether the certificate must be for `proxy_ssl_name`.", example: "proxy_ssl_verify_name off;", trust: .told)
  static let workloadID = DirectiveEntry.list(
    "proxy_ssl_spiffe_id", levels, .words(1...Int.max, "SPIFFE-ID …"), "",
    "The SPIFFE IDs of which the upstream must have one, with `proxy_ssl_trusted_certificate spiffe:`. `*` stands for one segment of the path, `**` at the end for one or more. A host name is then not checked.",
    example: "proxy_ssl_spiffe_id spiffe://example.org/ns/*/sa/app;", trust: .told
  ).option("--upstream-id")
  static let pinning = DirectiveEntry.value(
    "proxy_ssl_pinning", levels, .oneOf(["none", "public_key", "certificate"]), "public_key once a pin is given",
    "What a pin must match: the upstream's key, or a certificate of its verified chain, byte for byte. The default is `certificate` if all pins are `cert:HEX`.",
    example: "proxy_ssl_pinning certificate;")
  static let pin = DirectiveEntry.list(
    "proxy_ssl_pin", levels, .words(1...Int.max, "[chain] PIN …"), "",
    "Pins, of which one must match: `sha256//BASE64`, `sha256/BASE64`, `sha256:BASE64`, `spki:HEX`, `cert:HEX`, a file of certificates or public keys, a directory of certificates. `chain`: the key of any certificate of the verified chain can match.",
    example: "proxy_ssl_pin sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;", trust: .told
  ).option("--pin")
  static let reportOnly = DirectiveEntry.value(
    "proxy_ssl_pin_report_only", levels, .flag, "off",
    "Whether to log a pin that doesn't match, and accept the upstream.", example: "proxy_ssl_pin_report_only on;",
    trust: .told)
  static let allowInvalid = DirectiveEntry.value(
    "proxy_ssl_allow_invalid", levels, .flag, "off",
    "Whether a pin of the upstream's own key or certificate is sufficient if its chain doesn't verify.",
    example: "proxy_ssl_allow_invalid on;", trust: .told)
  static let serverName = DirectiveEntry.value(
    "proxy_ssl_name", levels, .words(1...1, "NAME"), "$proxy_host", "The name for SNI and the name check.",
    example: "proxy_ssl_name app.internal;", trust: .told
  ).option("--upstream-name")
  static let certificate = DirectiveEntry.value(
    "proxy_ssl_certificate", levels, .words(1...1, "MATERIAL"), "",
    "The client certificate that sallyport presents to an upstream that asks for one. `spiffe:` takes it, and its key, from the SPIFFE agent.",
    example: "proxy_ssl_certificate client.crt;", trust: .told
  ).option("--upstream-cert")
  static let certificateKey = DirectiveEntry.value(
    "proxy_ssl_certificate_key", levels, .words(1...1, "MATERIAL"), "",
    "The key of the client certificate; in a token: store:pkcs11:… or engine:pkcs11:….",
    example: "proxy_ssl_certificate_key client.key;", trust: .told
  ).option("--upstream-key")
  static let certificateCache = DirectiveEntry.value(
    "proxy_ssl_certificate_cache", levels, .words(1...3, "off | max=NUMBER [inactive=TIME] [valid=TIME]"),
    "max=512 inactive=30s valid=4s (nginx: off)",
    "How many certificates whose names have variables, and keys of such, a worker keeps (a certificate and its key count as two), how long without use, and how long until it looks at their files again. `off` reads the files for each request, and no kept connection serves another one.",
    example: "proxy_ssl_certificate_cache max=100 inactive=1h valid=1m;", trust: .none)

  static let directives = rows.entries
  static let rows: [Row<UpstreamTLSSettings>] = [
    Row(verify), Row(trustedCertificate), revocationList, Row(trustSystem), Row(verifyName), Row(workloadID),
    .number(
      "proxy_ssl_verify_depth", levels, 0...100, \.verifyDepth, "The maximum length of an upstream's chain.",
      example: "proxy_ssl_verify_depth 2;"),
    Row(pinning), Row(pin), Row(reportOnly), Row(allowInvalid), Row(serverName),
    .flag(
      "proxy_ssl_server_name", levels, \.sendsServerName, "Whether to send the name as SNI.",
      example: "proxy_ssl_server_name on;"),
    Row(certificate), Row(certificateKey), Row(certificateCache),
    .material(
      "proxy_ssl_password_file", levels, \.passwordFile, "A file with pass phrases for this key, one on each line.",
      example: "proxy_ssl_password_file client.pass;"
    ).option("--password-file"),
    .flag(
      "proxy_ssl_session_reuse", levels, \.reusesSessions, "Whether to resume sessions.",
      example: "proxy_ssl_session_reuse off;"),
    .line(
      "proxy_ssl_revoked_connections", levels, .words(1...1, "keep | close"), initial: "keep",
      "What happens to requests and tunnels in progress when the certificate of their upstream ends or is revoked, or when a revocation list by which it was judged ends: `keep` lets them go on and logs each, `close` cuts them. A further request never goes to such an upstream.",
      example: "proxy_ssl_revoked_connections close;"
    ) { $0.revokedUpstream = revokedUpstream($1, &$2) },
    .line(
      "proxy_ssl_protocols", levels, .someOf(["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]), initial: "TLSv1.2 TLSv1.3",
      "The TLS versions that can be negotiated.", example: "proxy_ssl_protocols TLSv1.3;"
    ) { tls, line, _ in tls.versions = TLSVersions(line) },
    .text(
      "proxy_ssl_ciphers", levels, "CIPHERS", \.ciphers, initial: "ECDHE and DHE with AEAD (nginx: DEFAULT)",
      "OpenSSL's cipher list for TLS 1.2 and earlier.", example: "proxy_ssl_ciphers ECDHE+AESGCM;"),
    .text(
      "proxy_ssl_ecdh_curve", levels, "CURVES", \.curves, absence: "auto",
      "The groups for the key exchange, in order of preference. auto: X25519, P-256 and P-384, and from OpenSSL 3.5 on before"
        + " them X25519MLKEM768, which is post-quantum.",
      example: "proxy_ssl_ecdh_curve X25519:P-256;", trust: .told),
    .lines(
      "proxy_ssl_conf_command", levels, .words(2...2, "NAME VALUE"), "An OpenSSL configuration command (SSL_CONF).",
      example: "proxy_ssl_conf_command Options PrioritizeChaCha;"
    ) { tls, lines, _ in tls.confCommands = lines.map { ConfCommand($0) } },
  ]
}

extension UpstreamTLSSettings: RowSettings {}
