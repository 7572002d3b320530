private let levels = DirectiveContexts.everyHTTP

/// Answers to an upstream that asks for a password; nginx has none of these.
let upstreamAuthDirectives: [DirectiveEntry] = [
  .value(
    "proxy_auth", levels, .someOf(["basic", "digest", "ntlm", "off"]), "off",
    "The schemes by which an upstream's 401 is answered here; of those offered the strongest is taken. With `ntlm` the "
      + "upstream is spoken to in HTTP/1.1 over connections that are kept."),
  .value(
    "proxy_auth_user_file", levels, .words(1...1, "FILE"), "",
    "Lines `SELECTOR USER:PASSWORD`: which client is which user. The first match counts; without one it is 403."),
  .list(
    "proxy_auth_space", levels, .words(1...Int.max, "SCHEME://HOST[:PORT] [realm=\"TEXT\"]"),
    "the proxy_pass server, any realm", "Where credentials may be shown; HOST may be an upstream group."),
  .value(
    "proxy_auth_persistence", levels, .oneOf(["none", "session", "permanent"]), "session",
    "How long a challenge is remembered, and answered ahead: the exchange, the process, or longer."),
  .value(
    "proxy_auth_state", levels, .words(1...1, "DIR"), "", "Where `permanent` keeps challenges (0700); no passwords."),
]
