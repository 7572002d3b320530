package import Language

private let levels = DirectiveContexts.everyHTTP

/// Passwords of clients (nginx: ngx_http_auth_basic_module).
package let passwordDirectives: [DirectiveEntry] = [
  .value(
    "auth_basic", levels.union(.limitExcept), .words(1...1, "REALM | off"), "off",
    "Asks clients for a user name and a password.", example: "auth_basic \"Administrators\";", trust: .told),
  .value(
    "auth_basic_user_file", levels.union(.limitExcept), .words(1...1, "FILE"), "",
    "A file with one `USER:HASH` on each line: crypt(3), bcrypt, `$apr1$`, `{SHA}`, `{SSHA}`. sallyport reads it for each request.",
    example: "auth_basic_user_file htpasswd;", trust: .told),
]
