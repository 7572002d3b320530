package import Language

private let levels = DirectiveContexts.everyHTTP

/// Requests that sallyport sends for another one (nginx: ngx_http_auth_request_module, ngx_http_mirror_module).
package let subrequestDirectives: [DirectiveEntry] = [
  .value(
    "auth_request", levels, .words(1...1, "PATH | off"), "off",
    "Asks the location of this path, by a GET without a body, whether a request is admitted: 2xx admits, 401 and 403"
      + " deny, and anything else is an error 500. See docs/operating/http.md.",
    example: "auth_request /oauth2/auth;", trust: .told),
  .list(
    "auth_request_set", levels, .words(2...2, "$VARIABLE VALUE"), "",
    "Sets a variable of the request when `auth_request` is answered. The value may have variables of the subrequest,"
      + " such as `$upstream_http_x_user`. `$args` and `$limit_rate` can be set, too.",
    example: "auth_request_set $user $upstream_http_x_auth_request_user;", trust: .told),
  .list(
    "mirror", levels, .words(1...1, "PATH | off"), "off",
    "Sends a copy of each request to the location of this path, with the request's query, and drops the response. Nothing"
      + " that happens to the copy changes the response of the client.", example: "mirror /copy;", trust: .told),
  .value(
    "mirror_request_body", levels, .flag, "on",
    "Whether the copy has the request's body. The proxy then collects the body before it sends the request or the copy,"
      + " so write `off` for gRPC streams.", example: "mirror_request_body off;"),
  .value(
    "log_subrequest", levels, .flag, "off",
    "Whether the access log gets a line for each subrequest that the location answers.", example: "log_subrequest on;",
    trust: .none),
]
