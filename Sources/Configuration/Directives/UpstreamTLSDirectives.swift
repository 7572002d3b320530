private let levels = DirectiveContexts.everyHTTP

/// TLS towards upstreams (nginx: ngx_http_proxy_module; the pins are ours).
let upstreamTLSDirectives: [DirectiveEntry] = [
  .value("proxy_ssl_verify", levels, .flag, "on once anything is said of trust", "The chain must verify."),
  .value(
    "proxy_ssl_trusted_certificate", levels, .words(1...1, "MATERIAL"), "", "CAs that upstream certificates come from."),
  .list(
    "proxy_ssl_crl", levels, .words(1...Int.max, "MATERIAL …"), "",
    "Revocation lists (CRLs) of the upstream's CAs: whole ones. Every CA of a chain needs one."),
  .value(
    "proxy_ssl_trust_system", levels, .flag, "off when a file is given", "The system's CAs count too."),
  .value(
    "proxy_ssl_verify_name", levels, .flag, "on where the chain is verified",
    "The certificate must be for `proxy_ssl_name`."),
  .value("proxy_ssl_verify_depth", levels, .number(0...100), "1", "How long an upstream's chain may be."),
  .value(
    "proxy_ssl_pinning", levels, .oneOf(["none", "public_key", "certificate"]), "public_key once a pin is given",
    "What must be pinned: the upstream's key, or a certificate of its verified chain, byte for byte. `certificate` when all pins are `cert:HEX`."
  ),
  .list(
    "proxy_ssl_pin", levels, .words(1...Int.max, "[chain] PIN …"), "",
    "Any of these must match: `sha256//BASE64`, `sha256/BASE64`, `sha256:BASE64`, `spki:HEX`, `cert:HEX`, a file of certificates or public keys, a directory of certificates. `chain`: the key of any certificate of the verified chain may match."
  ),
  .value(
    "proxy_ssl_pin_report_only", levels, .flag, "off", "A pin that does not match is logged, and the upstream let in."),
  .value(
    "proxy_ssl_allow_invalid", levels, .flag, "off",
    "A pin of the upstream's own key or certificate counts although its chain does not verify."),
  .value("proxy_ssl_name", levels, .words(1...1, "NAME"), "$proxy_host", "The name for SNI and the name check."),
  .value("proxy_ssl_server_name", levels, .flag, "off", "Whether the name is sent (SNI)."),
  .value("proxy_ssl_certificate", levels, .words(1...1, "MATERIAL"), "", "What we show to an upstream that asks."),
  .value(
    "proxy_ssl_certificate_key", levels, .words(1...1, "MATERIAL"), "",
    "Its key; of a token as store:pkcs11:… or engine:pkcs11:…."),
  .value("proxy_ssl_password_file", levels, .words(1...1, "MATERIAL"), "", "Pass phrases for it, one a line."),
  .value("proxy_ssl_session_reuse", levels, .flag, "on", "Sessions are resumed."),
  .value(
    "proxy_ssl_protocols", levels, .someOf(["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]), "TLSv1.2 TLSv1.3",
    "Versions that may be negotiated."),
  .value(
    "proxy_ssl_ciphers", levels, .words(1...1, "CIPHERS"), "ECDHE and DHE with AEAD (nginx: DEFAULT)",
    "OpenSSL's list for TLS 1.2 and below."),
  .list("proxy_ssl_conf_command", levels, .words(2...2, "NAME VALUE"), "", "A command of OpenSSL's SSL_CONF language."),
]
