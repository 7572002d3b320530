package import Language

/// nginx's map, geo, split_clients and referer modules.
package let rewriteDirectives: [DirectiveEntry] = [
  .value(
    "satisfy", .everyHTTP, .oneOf(["all", "any"]), "all",
    "Whether `allow`, `deny` and `auth_basic` must all admit a client, or one is enough. `ssl_client_allow` and `ssl_client_deny` apply in any case.",
    example: "satisfy any;", trust: .told),
  .value(
    "auth_delay", .everyHTTP, .milliseconds, "0s", "How long a response with status 401 waits.",
    example: "auth_delay 1s;"),
]
