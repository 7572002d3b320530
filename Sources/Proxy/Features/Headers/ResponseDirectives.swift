package import Language

private let levels = DirectiveContexts.everyHTTP
private let inherits = ArgumentForm.oneOf(["on", "off", "merge"])

/// Fields and framing of responses (nginx: ngx_http_headers_module, ngx_http_core_module).
package let responseDirectives: [DirectiveEntry] = [
  .list(
    "add_header", levels.union(.locationIf), .words(2...3, "FIELD VALUE [always]"), "",
    "Adds a field to the response to the client. ETag and Last-Modified replace the upstream's, and an empty value removes it. Control characters of a value become spaces, so `$ssl_client_cert` is one line.",
    example: "add_header Strict-Transport-Security \"max-age=31536000\" always;"),
  .value(
    "add_header_inherit", levels, inherits, "on",
    "What a level gets of the outer `add_header` lines: `merge` puts them before its own, `off` takes none.",
    example: "add_header_inherit merge;"),
  .value(
    "add_trailer_inherit", levels, inherits, "on",
    "What a level gets of the outer `add_trailer` lines: `merge` puts them before its own, `off` takes none.",
    example: "add_trailer_inherit merge;"),
  .value(
    "expires", levels.union(.locationIf), .words(1...2, "[modified] TIME | @TIME | epoch | max | off"), "off",
    "Replaces Expires and Cache-Control; the value may have variables.", example: "expires 1h;", trust: .none),
  .value(
    "charset", levels.union(.locationIf), .words(1...1, "CHARSET | off"), "off",
    "The charset in the Content-Type of responses that say none, with variables if need be. Bodies are never converted.",
    example: "charset utf-8;", trust: .none),
  .list(
    "charset_types", levels, .words(1...Int.max, "TYPE … | *"),
    "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
    "The types of responses that get it, and text/html in any case.",
    example: "charset_types text/css application/json;", trust: .none),
  .value(
    "chunked_transfer_encoding", levels, .flag, "on",
    "Whether a body of unknown length goes to HTTP/1.1 clients in chunks; with `off`, it ends with the connection.",
    example: "chunked_transfer_encoding off;"),
]
