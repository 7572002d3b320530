/// The names of stunnel's options, and what becomes of those that no part of a server reads.
enum StunnelWords {
  static let checks = ["checkhost", "checkemail", "checkip"]
  static let negotiationDetails = [
    "protocolauthentication", "protocoldomain", "protocolhost", "protocolpassword", "protocolusername",
    "protocolheader",
  ]
  /// stunnel's protocols, as `starttls` and `proxy_starttls` name them.
  static let negotiations: [String: String?] = [
    "smtp": "smtp", "imap": "imap", "pop3": "pop3", "pgsql": "postgres", "ldap": "ldap",
  ]

  /// What `StunnelService` reads.
  static let handled: Set<String> = Set(
    checks + negotiationDetails + [
      "accept", "cert", "key", "connect", "protocol", "cafile", "capath", "caengine", "crlfile", "crlpath", "verify",
      "verifychain", "verifypeer", "requirecert", "ocsp", "ocspaia", "redirect", "sslversion", "sslversionmin",
      "sslversionmax", "options", "securitylevel", "ciphers", "ciphersuites", "curve", "curves", "config", "exec",
      "execargs", "pty", "transparent", "local", "failover", "delay", "timeoutconnect", "timeoutidle", "timeoutbusy",
      "sessioncachetimeout", "sessionresume",
    ])

  static let withoutEffect: [String: String] = [
    "debug": "error_log says the level for all servers", "logid": "each connection has a number in the log",
    "timeoutclose": "an end waits for no close_notify", "timeoutocsp": "responders have a time limit of their own",
    "reset": "a connection that breaks is reset", "retry": "clients connect again by themselves",
    "renegotiation": "nobody can renegotiate", "stack": "there is no thread for each connection",
    "sessioncachesize": "sessions are in tickets; ssl_session_cache keeps some here",
    "ocspnonce": "responses are judged by their times", "service": "it is a name for other programs",
    "ocsprequire": "a client whose status can't be known is refused",
    "compression": "TLS is never compressed",
  ]

  /// What a server is not less strict without.
  static let harmless: [String: String] = [
    "sessiond": "sessions are shared by ssl_session_ticket_key: put the same random file on all machines",
    "ticketkeysecret": "put 80 random bytes into a file, and name it in ssl_session_ticket_key",
    "ticketmacsecret": "put 80 random bytes into a file, and name it in ssl_session_ticket_key",
    "ocspflag": "responses are always verified in full",
    "engineid": "OpenSSL's provider finds the token: key = pkcs11:…", "enginenum": "OpenSSL's provider finds the token",
    "setuid": "the owner of a unix socket is the user that serves",
    "setgid": "the group of a unix socket is that of the user that serves",
    "dhparam": "ssl_dhparam names a file",
  ]

  /// What keeps clients out, or changes who the peer is.
  static let closing: [String: String] = [
    "libwrap": "hosts.allow and hosts.deny aren't read: write `allow ADDRESS;` and `deny all;`",
    "ident": "a user name that a client's machine tells proves nothing: use certificates",
    "psksecrets": "clients are known by certificates, and not by shared keys",
    "pskidentity": "there are no shared keys",
  ]

  static let ofGlobals: Set<String> = [
    "chroot", "egd", "engine", "enginectrl", "enginedefault", "fips", "foreground", "iconactive", "iconerror",
    "iconidle",
    "log", "output", "pid", "rndbytes", "rndfile", "rndoverwrite", "setuid", "setgid", "socket", "syslog", "taskbar",
    "debug", "service", "compression", "provider", "providerparameter", "setenv",
  ]

  /// Whether a global line is the default of services.
  static func isOfServices(_ name: String) -> Bool { !ofGlobals.contains(name) }
}
