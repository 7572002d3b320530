package import Language

private let levels = DirectiveContexts.everyHTTP

/// Passwords of clients (nginx's auth_basic module), and certificates for users with a password.
package let enrolmentDirectives: [DirectiveEntry] = [
  .value(
    "auth_basic", levels.union(.limitExcept), .words(1...1, "REALM | off"), "off",
    "Asks clients for a user name and a password.", example: "auth_basic \"Administrators\";", trust: .told),
  .value(
    "auth_basic_user_file", levels.union(.limitExcept), .words(1...1, "FILE"), "",
    "A file with one `USER:HASH` on each line: crypt(3), bcrypt, `$apr1$`, `{SHA}`, `{SSHA}`. sallyport reads it for each request.",
    example: "auth_basic_user_file htpasswd;", trust: .told),
  .local(
    "enrolment", .location, .flag, "off",
    "Whether to issue a certificate to a user who sends a password (POST, JSON). Not in nginx.",
    example: "enrolment on;"),
  .value(
    "enrolment_authority", levels, .words(1...1, "DIR"), "", "The folder that `sallyport ca` made. Not in nginx.",
    example: "enrolment_authority ca;"),
  .value(
    "enrolment_renew_before", levels, .seconds, "30d",
    "How long before its end a certificate can be renewed. Not in nginx.", example: "enrolment_renew_before 30d;"),
  .value(
    "enrolment_pkcs12", levels, .oneOf(["modern", "legacy"]), "modern",
    "How to encrypt the PKCS#12; `legacy` uses RC2 and 3DES, for old devices. Not in nginx.",
    example: "enrolment_pkcs12 legacy;"),
  .value(
    "enrolment_max_devices", levels, .number(1...10_000), "10",
    "How many devices of one user can have a valid certificate; a further device gets 403. Not in nginx.",
    example: "enrolment_max_devices 3;"),
  .value(
    "enrolment_failures", levels, .words(1...2, "COUNT [TIME]"), "10 60s",
    "How many wrong passwords of a user or an address are allowed before sallyport responds with 429. Not in nginx.",
    example: "enrolment_failures 5 10m;"),
]
