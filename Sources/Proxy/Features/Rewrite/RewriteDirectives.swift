package import Language

/// nginx's map, geo, split_clients and referer modules.
package let rewriteDirectives: [DirectiveEntry] = [
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
  .value(
    "satisfy", .everyHTTP, .oneOf(["all", "any"]), "all",
    "Whether `allow`, `deny` and `auth_basic` must all admit a client, or one is enough. `ssl_client_allow` and `ssl_client_deny` apply in any case.",
    example: "satisfy any;", trust: .told),
  .value(
    "auth_delay", .everyHTTP, .milliseconds, "0s", "How long a response with status 401 waits.",
    example: "auth_delay 1s;"),
  .value(
    "recursive_error_pages", .everyHTTP, .flag, "off", "Whether `error_page` applies to an error of an error page too.",
    example: "recursive_error_pages on;"),
]
