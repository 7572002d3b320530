package import Language

private let blocks: DirectiveContexts = [.server, .location, .serverIf, .locationIf]
private let levels: DirectiveContexts = [.http, .server, .location, .locationIf]

/// nginx's rewrite, map, geo, split_clients and referer modules.
package let rewriteDirectives: [DirectiveEntry] = [
  .local(
    "return", blocks, .words(1...2, "CODE [TEXT] | CODE URL | URL"),
    "Responds immediately, before `auth_basic`, `allow` and `deny` apply; 444 closes the connection without a response.",
    repeatable: true, example: "return 301 https://$host$request_uri;", trust: .told),
  .local(
    "set", blocks, .words(2...2, "$VARIABLE VALUE"),
    "Sets a variable. Of nginx's own variables, `$args`, `$limit_rate`, `$proxy_host`, `$proxy_port` and most of fields, cookies and arguments can be set.",
    repeatable: true, example: "set $backend app;", trust: .told),
  .local(
    "rewrite", blocks, .words(2...3, "REGEX REPLACEMENT [last | break | redirect | permanent]"),
    "Changes the path if the regular expression matches it, or redirects. The access rules of the location in which the request ends apply.",
    repeatable: true, example: "rewrite ^/old/(.*)$ /new/$1 last;", trust: .told),
  .local(
    "break", blocks, .none, "Ends the directives of the rewrite module; the request stays in its location.",
    repeatable: true, example: "break;", trust: .told),
  .local(
    "if", [.server, .location], .block(1...Int.max, "(CONDITION)"),
    "Runs the directives in the block if the condition holds. In a location, the block is a location of its own, as in nginx. A thread beside the event loops looks at the files of `-f`, `-d`, `-e` and `-x`.",
    repeatable: true, example: "if ($request_method = TRACE) { return 405; }", trust: .told),
  .value(
    "rewrite_log", levels, .flag, "off", "Whether to log what `rewrite` and `if` match, at level notice.",
    example: "rewrite_log on;", trust: .none),
  .value(
    "uninitialized_variable_warn", levels, .flag, "on",
    "Whether to log the use of a variable that `set` has not set, at level warn.",
    example: "uninitialized_variable_warn off;"),
  .inert("rewrite_log", .serverIf, because: "as in nginx, the value of the server block counts"),
  .inert("uninitialized_variable_warn", .serverIf, because: "as in nginx, the value of the server block counts"),
  .local(
    "map", .http, .block(2...2, "STRING $VARIABLE"),
    "A variable whose value depends on a text: exact (case doesn't matter), `hostnames`, `~regex`, `default`, `volatile`. If a regular expression reaches its limit, the response is 500. sallyport refuses maps that depend on each other in a circle.",
    repeatable: true, example: "map $http_upgrade $connection_upgrade { default upgrade; \"\" close; }", trust: .told),
  .local(
    "geo", .http, .block(1...2, "[$ADDRESS] $VARIABLE"),
    "A variable whose value depends on an address: networks or `ranges`, `default`, `delete`, `proxy`, `proxy_recursive`, `volatile`.",
    repeatable: true, example: "geo $office { default 0; 192.0.2.0/24 1; }", trust: .told),
  .local(
    "split_clients", .http, .block(2...2, "STRING $VARIABLE"),
    "A variable whose value depends on the hash of a text, with nginx's hash and shares.", repeatable: true,
    example: "split_clients $remote_addr $variant { 10% new; * old; }", trust: .told),
  .inert("map_hash_bucket_size", .http, because: "the tables grow as needed"),
  .inert("map_hash_max_size", .http, because: "the tables grow as needed"),
  .list(
    "valid_referers", [.server, .location],
    .words(1...Int.max, "none | blocked | server_names | NAME[PATH] | ~REGEX …"), "",
    "The Referer values for which `$invalid_referer` is empty.",
    example: "valid_referers none server_names *.example.com;"),
  .inert("referer_hash_bucket_size", [.server, .location], because: "the tables grow as needed"),
  .inert("referer_hash_max_size", [.server, .location], because: "the tables grow as needed"),
  .local(
    "limit_except", .location, .block(1...Int.max, "METHOD …"),
    "Settings for requests with other methods. `GET` includes `HEAD`. As in nginx, such a request doesn't run the location's `rewrite`, `return`, `if` and `set`.",
    example: "limit_except GET HEAD { deny all; }", trust: .told),
  .value(
    "recursive_error_pages", .everyHTTP, .flag, "off", "Whether `error_page` applies to an error of an error page too.",
    example: "recursive_error_pages on;"),
]
