extension DirectiveSample {
  /// The samples of `acme_issuer` and `acme_certificate`.
  static let acme: [String: DirectiveSample] = {
    let server = certificate + "acme_certificate i a.test;"
    func line(_ other: String, or one: String = "") -> DirectiveSample {
      DirectiveSample(other, or: one, beside: "uri https://ca.test/dir;", server: server)
    }
    return [
      "acme_issuer": .init(
        "acme_issuer ca { uri https://a.test/; }", or: "acme_issuer ca { uri https://b.test/; }",
        server: certificate + "acme_certificate ca a.test;"),
      "uri": .init("uri https://a.test/;", or: "uri https://b.test/;", server: server),
      "account_key": line("account_key rsa:2048;"),
      "challenge": line("challenge tls-alpn-01;"),
      "contact": line("contact a@b.test;"),
      "external_account_key": line("external_account_key k a.key;"),
      "preferred_chain": line("preferred_chain x;"),
      "profile": line("profile x;", or: "profile x require;"),
      "acme_issuer/ssl_trusted_certificate": line("ssl_trusted_certificate ca.pem;"),
      "acme_issuer/ssl_verify": line("ssl_verify off;"),
      "state_path": line("state_path /a;"),
      "accept_terms_of_service": line("accept_terms_of_service;"),
      "acme_certificate": .init(
        "acme_certificate ca a.test;", or: "acme_certificate ca b.test;",
        http: "acme_issuer ca { uri https://ca.test/dir; }"),
    ]
  }()
}
