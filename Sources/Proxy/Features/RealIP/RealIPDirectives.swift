package import Language

/// Where the client is (nginx: ngx_http_realip_module).
package let realIPDirectives: [DirectiveEntry] = [
  .list(
    "set_real_ip_from", .everyHTTP, .words(1...1, "ADDRESS | CIDR | unix: | NAME"), "",
    "Peers whose word about the client's address is taken. A name is resolved at start and reload.",
    example: "set_real_ip_from 10.0.0.0/8;", trust: .told),
  .value(
    "real_ip_header", .everyHTTP, .words(1...1, "FIELD | X-Forwarded-For | proxy_protocol"), "X-Real-IP",
    "Where such a peer names the client. Of X-Forwarded-For the last line counts, of another field the first line. Unlike in nginx, `x-forwarded-for` in any case means X-Forwarded-For, and an address with an empty number, such as `1..2.3`, is none.",
    example: "real_ip_header X-Forwarded-For;", trust: .told),
  .value(
    "real_ip_recursive", .everyHTTP, .flag, "off",
    "Takes the last address that isn't trusted itself, through all lines of X-Forwarded-For.",
    example: "real_ip_recursive on;", trust: .told),
]
