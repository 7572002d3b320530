extension PythonScript {
  /// oauth PORT: what oauth2-proxy says to auth_request, an application behind it, and upstreams that misbehave. Prints
  /// `METHOD TARGET PORT LENGTH BODY` for each request to /copy, PORT being that of X-Port.
  ///
  /// `/oauth2/auth` 202 for the cookie s=good, with a user and fresh cookies, else 401 · `/oauth2/…` what a browser sees ·
  /// `/app…` the request's identity fields · `/status/N` · `/cut` a body that breaks off · `/long` 1 MB of it · `/accel?to=T`
  /// X-Accel-Redirect · `/headcut`, `/hold` no whole head, and no answer.
  static let oauthSource = #"""
    import http.server, sys, time, urllib.parse

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_): pass

        def answer(self, status, body=b"", *fields):
            self.send_response_only(status)
            for name, value in fields: self.send_header(name, value)
            if status != 204: self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD": self.wfile.write(body)

        def body(self):
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                whole = b""
                while size := int(self.rfile.readline(), 16): whole += self.rfile.read(size); self.rfile.readline()
                self.rfile.readline()
                return whole
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def serve(self):
            body, url = self.body(), urllib.parse.urlsplit(self.path)
            query = urllib.parse.parse_qs(url.query)
            said = " ".join(f"{n}={self.headers.get_all(n, [])}" for n in (
                "X-User", "X-Email", "X-Forwarded-Uri", "X-Real-IP", "Cookie", "X-DN", "Content-Type", "X-Method"))
            if url.path == "/oauth2/auth":
                if "s=good" in self.headers.get("Cookie", ""):
                    return self.answer(202, b"", ("X-Auth-Request-User", "al"), ("X-Auth-Request-Email", "al@x.test"),
                        ("Set-Cookie", "s_1=more; Path=/; HttpOnly"))
                return self.answer(401, b"Unauthorized\n", ("WWW-Authenticate", 'Bearer realm="o"'))
            if url.path == "/oauth2/start":
                return self.answer(302, b"", ("Location", "https://idp.test/?" + url.query), ("Set-Cookie", "csrf=1"))
            if url.path.startswith("/oauth2/"):
                return self.answer(200, f"sign in {self.command} {said}\n".encode(), ("Content-Type", "text/html"))
            if url.path.startswith("/status/"): return self.answer(int(url.path[8:]), b"a body")
            if url.path == "/said": return self.answer(200, b"", ("X-Said", f"{self.command} {said} [{len(body)}]"))
            if url.path == "/copy":
                # In one piece: a reader may come between two.
                words = self.command, self.path, str(self.headers.get("X-Port")), str(len(body)), body[:20].decode()
                print(" ".join(words) + "\n", end="", flush=True)
                return self.answer(500 if "fail" in url.query else 200, b"never seen")
            if url.path == "/accel":
                return self.answer(int(query.get("status", ["200"])[0]), b"lost", ("X-Accel-Redirect", query["to"][0]),
                    ("Content-Type", "text/x"), ("Set-Cookie", "first=1"), ("Content-Disposition", "attachment"),
                    ("Cache-Control", "no-store"), ("ETag", '"e"'), ("X-Other", "o"), ("Refresh", "9"))
            self.close_connection = url.path in ("/cut", "/headcut", "/hold")
            if url.path == "/cut": return self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut")
            if url.path == "/headcut": return self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            if url.path == "/hold": return time.sleep(float(query.get("for", ["1"])[0]))
            if url.path == "/long": return self.answer(200, b"x" * 1000000)
            self.answer(200, f"app {self.command} {self.path} {said} [{body.decode()}]\n".encode())

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_OPTIONS = serve

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 512
        def handle_error(self, *_): pass

    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
    """#
}
