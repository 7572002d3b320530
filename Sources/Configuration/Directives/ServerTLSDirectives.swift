private let levels: DirectiveContexts = [.http, .server]

/// TLS towards clients (nginx: ngx_http_ssl_module).
let serverTLSDirectives: [DirectiveEntry] = [
  .value("ssl", levels, .flag, "off", "Obsolete: say `listen … ssl`. On makes every listen of the server TLS."),
  .list(
    "ssl_certificate", levels, .words(1...1, "MATERIAL"), "",
    "The server's certificate chain: PEM, DER or PKCS#12; repeatable for several key kinds."),
  .list(
    "ssl_certificate_key", levels, .words(1...1, "MATERIAL"), "",
    "The key of the certificate in the same place; of a token as store:pkcs11:… or engine:pkcs11:…."),
  .value("ssl_password_file", levels, .words(1...1, "MATERIAL"), "", "Pass phrases for keys and PKCS#12, one a line."),
  .value(
    "ssl_client_certificate", levels, .words(1...1, "MATERIAL"), "",
    "CAs that client certificates must come from; their names are sent to the client."),
  .value(
    "ssl_trusted_certificate", levels, .words(1...1, "MATERIAL"), "", "CAs that count too, but are not named."),
  .list(
    "ssl_crl", levels, .words(1...Int.max, "MATERIAL …"), "",
    "Revocation lists (CRLs) of the client CAs: whole ones, several in a file too. Every CA of a chain needs one."),
  .value(
    "ssl_verify_client", levels, .oneOf(["on", "off", "optional", "optional_no_ca"]), "off",
    "Whether a client needs a certificate."),
  .list(
    "ssl_client_allow", .everyHTTP, .words(1...Int.max, "KEY=PATTERN …"), "",
    """
    Lets in only clients of which all of a line holds; one line is enough. Keys: cn, o, ou, dns, email, uri, ip, serial, \
    issuer, fingerprint, spki. `*` is one label or path segment, `**` many, `~` begins a regular expression.
    """),
  .list(
    "ssl_client_deny", .everyHTTP, .words(1...Int.max, "KEY=PATTERN …"), "",
    "Denies clients of which all of a line holds, before ssl_client_allow is asked."),
  .value(
    "client_identity", .everyHTTP, .oneOf(["rfc9440", "xfcc", "off"]), "off",
    """
    Tells upstreams who the client is, by Client-Cert and Client-Cert-Chain (RFC 9440) or Envoy's \
    X-Forwarded-Client-Cert. None of these fields is taken from a client of the server then.
    """),
  .value(
    "ssl_verify_reject", levels, .oneOf(["http", "handshake"]), "http",
    "Refuses a client with a page (400, 403), or with a TLS alert before any HTTP."),
  .value("ssl_verify_depth", levels, .number(0...100), "1", "How long a client's chain may be."),
  .value(
    "ssl_protocols", levels, .someOf(["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]), "TLSv1.2 TLSv1.3",
    "Versions that may be negotiated."),
  .value(
    "ssl_ciphers", levels, .words(1...1, "CIPHERS"), "ECDHE and DHE with AES-GCM or ChaCha20",
    "OpenSSL's list for TLS 1.2 and below; with TLS 1.1 or older `HIGH:!aNULL:!MD5` is the default."),
  .value("ssl_prefer_server_ciphers", levels, .flag, "off", "The server's order counts."),
  .value("ssl_ecdh_curve", levels, .words(1...1, "CURVES"), "auto", "Groups for the key exchange, in order."),
  .value(
    "ssl_dhparam", levels, .words(1...1, "MATERIAL"), "OpenSSL's own",
    "DH parameters for DHE suites of TLS 1.2 and below, 2048 bits or more."),
  .list("ssl_conf_command", levels, .words(2...2, "NAME VALUE"), "", "A command of OpenSSL's SSL_CONF language."),
  .value("ssl_reject_handshake", levels, .flag, "off", "Refuses every handshake with a name of this server."),
  .value(
    "ssl_session_cache", levels, .words(1...2, "off | none | [builtin[:SIZE]] [shared:NAME:SIZE]"), "none",
    "Where sessions are kept for resumption."),
  .value("ssl_session_tickets", levels, .flag, "on", "Whether tickets are given."),
  .value("ssl_session_timeout", levels, .seconds, "5m", "How long a session may be resumed."),
  .list(
    "ssl_session_ticket_key", levels, .words(1...1, "MATERIAL"), "",
    "48 or 80 random bytes that seal tickets: the first makes them, all open them. Shared between machines."),
  .value(
    "ssl_ocsp", levels, .oneOf(["on", "off", "leaf"]), "off",
    "Whether OCSP responders are asked about clients: about every certificate of the chain, or the client's alone."),
  .value(
    "ssl_ocsp_cache", levels, .words(1...1, "off | shared:NAME:SIZE"), "off", "Where their answers are kept."),
  .value(
    "ssl_ocsp_responder", levels, .words(1...1, "URL"), "", "Asked in place of the one that a certificate names."),
  .value("ssl_stapling", levels, .flag, "off", "The OCSP response for our own certificate goes with it."),
  .value(
    "ssl_stapling_file", levels, .words(1...1, "MATERIAL"), "", "The response, as DER, in place of asking for it."),
  .value(
    "ssl_stapling_responder", levels, .words(1...1, "URL"), "", "Asked in place of the one that our certificate names."),
  .inert("ssl_stapling_verify", levels, because: "a response is always verified before it is stapled"),
  .value(
    "ssl_reload", .everyHTTP, .flag, "on",
    "Files of keys, certificates, CAs, CRLs, pins and pass phrases are taken up when they change, without a signal. Off: they stay as they were loaded until HUP."
  ),
  .value(
    "ssl_early_data", levels, .flag, "off",
    "TLS 1.3 early data: requests of safe methods, marked `Early-Data: 1`; others wait for the handshake's end."),
  .value("ssl_buffer_size", levels, .size, "16k", "Plain bytes of one record."),
]
