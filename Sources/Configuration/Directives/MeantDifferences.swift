/// Answers that differ from nginx's by intent, with the reasons. The manual prints them; a row of a directive tells what
/// concerns that directive alone.
let meantDifferences: [(difference: String, reason: String)] = [
  (
    "Of several `proxy_set_header` lines for a field that a request has once (Host, Authorization, Content-Type and others of the standards), the last one with a value counts. Without a value of Host, the request has that of `$proxy_host`. nginx 1.22 sends each line, or no Host.",
    "RFC 9112 §3.2 demands exactly one Host, and RFC 9110 §5.3 forbids a second line of a field that is no list: the upstream could take either."
  ),
  (
    "A response always has a Date, also with `proxy_pass_header Date` where the upstream sent none; nginx sends none.",
    "RFC 9110 §6.6.1 demands one of who forwards a response."
  ),
  (
    "Of an upstream's Upgrade field, the client gets the one of a 101 or 426 only; nginx forwards every one.",
    "The field belongs to one connection (RFC 9110 §7.6.1). A client that saw `Upgrade: h2` on a response of the proxy would ask the proxy for it."
  ),
  (
    "A client that sends `Expect: 100-continue` without a body, or with `Content-Length: 0`, gets no 100; nginx sends one.",
    "There is nothing to continue (RFC 9110 §10.1.1), and some clients take the 100 for the response."
  ),
  (
    "`$ssl_client_cert` in `add_header` and `proxy_set_header` is one line, with spaces for its line breaks; nginx sends a folded field.",
    "Folded fields are obsolete (RFC 9112 §5.2), and a line break in a value lets its author add fields."
  ),
  (
    "A server block with `listen … ssl` and without a certificate stops the start, also if it isn't the default server.",
    "nginx would answer for it with the default server's certificate, which has another name."
  ),
  (
    "In the names of certificates, `$ssl_server_name` is a host name in lower case without a trailing dot, and no file is opened without one. A session is resumed only under the name under which it began. nginx inserts what the client sent, and resumes a TLS 1.3 session under another name.",
    "A client must not choose a file by another spelling, or reach a name by another name's session."
  ),
  (
    "A `Host` with an address in brackets has nothing but a port after them; nginx takes a dot there.",
    "Two spellings of one host could be judged by two rules."
  ),
  (
    "After a GET, HEAD or DELETE in HTTP/1.0 with a body, the connection to the client ends; nginx keeps it for `Connection: keep-alive`.",
    "HTTP/1.0 (RFC 1945) gives these methods no body. A sender that takes the body for its next request gets no response to it."
  ),
  (
    "A Host other than the authority of an absolute request target gets 400; nginx ignores the Host.",
    "RFC 9112 §3.2.2 lets a proxy ignore it, too. But two names in one request are a fault or an attack on who reads the other one, such as a cache in front."
  ),
  (
    "A request with the method PRI gets 400, as in HAProxy.",
    "RFC 9113 §11.6 reserves it: an upstream could take the request for the preface of HTTP/2."
  ),
  (
    "A 304 of `return` has neither Content-Type nor Content-Length; nginx sends `Content-Length: 0`.",
    "The length would be that of the response to GET (RFC 9110 §8.6)."
  ),
  (
    "A refused request has in `$request_method`, `$uri`, `$args` and `$host` what could be read of it. nginx has none of them after a fault in the request line, and its own name as `$host` of a request that gets 421. No field of a refused head has a value.",
    "A log that names the path and the host shows who scans. An error page may go to an upstream, and a field of a refused head must not."
  ),
  (
    "A status of 400 or more for which nginx has no page gets one in the same form; a status has its name of RFC 9110.",
    "An empty page tells a user nothing. No client depends on the absence of a page."
  ),
  (
    "A reload cuts requests in progress, tunnels too, whose client the new configuration doesn't verify, or denies by `ssl_client_allow` and `ssl_client_deny` (`ssl_revoked_connections`); with nginx they last.",
    "A tunnel, an event stream or a download can last for days. A revoked client must not keep it. `worker_shutdown_timeout` of the replaced configuration ends the tunnels of clients that are still admitted, as in nginx."
  ),
  (
    "A subrequest of `auth_request` shows no `error_page`, and its response must be whole.",
    "`error_page 502 =200 …` would let everybody in while the upstream is down."
  ),
  (
    "No configuration can define a `$ssl_…` variable that nginx has, such as `$ssl_client_verify`, by `set`, `map` and the like; nginx lets it.",
    "Every line with that name would believe whatever the definition says of the client."
  ),
  (
    "`set` in a subrequest changes no variable of the main request; only `auth_request_set` does.",
    "A server's `set $x $uri` would give the main request the path of the subrequest."
  ),
  (
    "`ssl_client_allow` and `ssl_client_deny` of a subrequest's location apply; of `allow` and `auth_basic`, none does, as in nginx.",
    "They apply at each entry to a location, and no other access step overrides them."
  ),
  (
    "A subrequest of `auth_request` never announces a body; nginx forwards the client's Content-Length.",
    "An upstream would wait for a body that never comes."
  ),
  (
    "A client can send its next request while a `mirror` is in progress; with nginx, that request waits.",
    "Nothing of a mirror may reach the client, its delay included."
  ),
  (
    "After an X-Accel-Redirect, a field of the other response replaces that of the first; nginx sends Expires and Content-Disposition twice. A hidden field stays hidden.",
    "Two such fields are invalid (RFC 9110 §5.3)."
  ),
  (
    "The path of an X-Accel-Redirect is normalized as a client's is; nginx takes `/./secret/x` for another path than `/secret/x`.",
    "An upstream that a client can influence would reach a location by a spelling that no rule names."
  ),
  (
    "An X-Accel-Redirect of the response to an `auth_request` has no effect; with nginx the response behind it decides.",
    "A 403 would become the 200 of a file."
  ),
  (
    "`auth_basic_user_file` can't begin with a variable.",
    "A request could name any file that sallyport can read."
  ),
  (
    "A `proxy_bind` whose value is no address is answered with 500; nginx connects from an address of the system's choice.",
    "An upstream may let a client in by that address."
  ),
  (
    "`$request_body_file` is empty for a body in a file that isn't of `client_body_in_file_only`; nginx names a file that it has already removed.",
    "The file never had a name."
  ),
  (
    "With `proxy_pass_request_body off`, a body is read only for `proxy_set_body` and `client_body_in_file_only`; nginx reads it in any case. The upstream gets no Content-Length of the client's.",
    "Nobody needs the body. With the client's length and without its body, an upstream would wait for bytes that don't come."
  ),
  (
    "A path of `auth_basic_user_file` with variables that contains `..` is answered with 403.",
    "A request must not choose a file outside the folder that the configuration names."
  ),
  (
    "No symbolic link below `root` or `alias` is followed: status 403, as with nginx's `disable_symlinks on`. Links in the folder's own path are followed.",
    "Whoever may write in the folder could otherwise have any file served that sallyport can read, its keys too."
  ),
  (
    "A path that would leave `alias` (`location /i { alias /data/images/; }` and `/i../x`), or that continues its last name, gets status 403.",
    "nginx joins the texts, and serves what is beside the folder."
  ),
  (
    "`root` and `alias` begin with a fixed folder, and `root /` is refused.",
    "With nginx, a variable from the request can choose any folder."
  ),
  (
    "A response ends incomplete if its file is replaced or written to while it is sent.",
    "A client that reads slowly holds no open file, and never gets parts of two."
  ),
  (
    "`autoindex` leaves out symbolic links, lists at most 10000 entries, and shows what isn't UTF-8 as U+FFFD.",
    "No link is followed, and reading a larger folder would hold up other files. The lists of nginx can be ill-formed XML and JSON."
  ),
  (
    "`gunzip` breaks a response off whose gzip ends too early, and leaves alone a part of a response (206) and what an upstream marks by `Cache-Control: no-transform`.",
    "nginx leaves the client waiting for the end of the first, and breaks the second; RFC 9111 §5.2.2.6 forbids the third."
  ),
  (
    "Over TLS, `gzip` doesn't compress responses of upstreams to clients with a certificate, a Cookie or Authorization, nor responses with Set-Cookie.",
    "The size of a compressed response tells what it repeats of the request (BREACH)."
  ),
  (
    "`gzip` doesn't compress a response with `Cache-Control: no-transform`.",
    "RFC 9111 §5.2.2.6 forbids it to a proxy."
  ),
  (
    "X-Accel-Buffering and `proxy_buffering` change only how much of a response can wait.",
    "sallyport always forwards data as it arrives."
  ),
  (
    "`backup` and `slow_start` beside `hash`, `ip_hash` or `random` are errors wherever they stand, and so is a method below `sticky`; nginx refuses them in one order of the lines only.",
    "nginx's documentation rules them out. In the other order, nginx drops what one of the lines says."
  ),
  (
    "The `domain=` of `sticky cookie` is left out if its variables come to something else than letters, digits, dots and hyphens.",
    "A client could add attributes to the cookie otherwise."
  ),
  (
    "A response that sallyport makes itself has no cookie of `sticky`; nginx's pages for errors of upstreams have one.",
    "The server that failed is not the one to be bound to."
  ),
  (
    "`log_format escape=json` writes bytes that are not UTF-8 as `\\u00XX`, and the status 000 without quotation marks as 0.",
    "nginx's line would be no JSON then, and a collector that drops it hides the request."
  ),
  (
    "Without `buffer=`, an access log is written after at most one second, not with each line. Each file has a thread of its own, and lines that it doesn't take are lost and counted.",
    "A worker that waits for a disk or a pipe serves no request."
  ),
  (
    "The files of an `access_log` with variables are below a fixed folder, which must exist: a value with a slash, a name with `..` and a symbolic link lead to no file. nginx opens what the name says, if `root` exists.",
    "A client must not choose a file outside. The request is in the error log instead."
  ),
  (
    "Trailers of an upstream's response pass to the client, unless `proxy_pass_trailers off`; nginx drops them without `proxy_pass_trailers on`.",
    "They belong to the response, such as the checksum of its body (RFC 9110 §6.5)."
  ),
  (
    "`$realpath_root` is looked up when the configuration is loaded; nginx looks at the links at each request.",
    "No event loop waits for a disk. A reload looks again."
  ),
  (
    "`$ssl_sigalg`, `$ssl_client_sigalg` and `$ssl_sigalgs` have values with OpenSSL 3.0 too; nginx needs 3.5.",
    "OpenSSL tells the kind of key and the hash function, and the name of the scheme follows from them."
  ),
  (
    "Faults that repeat are folded into summaries, and a client that is refused because of its certificate is at `notice`; nginx writes each line, and those at `info`.",
    "A log full of one line hides the others."
  ),
  (
    "A drain (QUIT, or a reload for the old generation) gives idle connections one second and the last answers `Connection: close`; nginx closes idle connections at once.",
    "A request that is already under way would be lost."
  ),
  (
    "A body that is collected must come at 100 bytes a second on average after `client_body_timeout` (`client_body_min_rate`); nginx waits for each byte anew.",
    "A client that sends a byte a minute would keep its place and memory for days."
  ),
]
