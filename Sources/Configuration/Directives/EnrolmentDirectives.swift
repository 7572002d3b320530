private let levels = DirectiveContexts.everyHTTP

/// Passwords at the door (nginx: auth_basic module), and certificates for those who have one (ours).
let enrolmentDirectives: [DirectiveEntry] = [
  .value("auth_basic", levels, .words(1...1, "REALM | off"), "off", "Asks clients for a name and a password."),
  .value(
    "auth_basic_user_file", levels, .words(1...1, "FILE"), "",
    "`USER:HASH` a line: crypt(3), bcrypt, `$apr1$`, `{SHA}`, `{SSHA}`. Read with each request."),
  .local(
    "enrolment", .location, .flag, "off", "Gives a certificate to who shows a password: POST, JSON; ours."),
  .value("enrolment_authority", levels, .words(1...1, "DIR"), "", "The folder of `sallyport ca`; ours."),
  .value(
    "enrolment_renew_before", levels, .seconds, "30d", "So long before its end a certificate may be renewed; ours."),
  .value(
    "enrolment_pkcs12", levels, .oneOf(["modern", "legacy"]), "modern", "`legacy`: RC2 and 3DES, for old devices; ours."
  ),
  .value(
    "enrolment_max_devices", levels, .number(1...10_000), "10",
    "Devices of one user with a valid certificate; for another one 403; ours."),
  .value(
    "enrolment_failures", levels, .words(1...2, "COUNT [TIME]"), "10 60s",
    "Wrong passwords of a user or an address before 429; ours."),
]
