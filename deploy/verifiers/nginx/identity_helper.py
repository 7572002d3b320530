"""Answers nginx's auth_request: 204 for a request that sallyport has signed, with X-Client-Cert-SHA256 and X-Client-DN; else 403.

    python3 identity_helper.py http://127.0.0.1:8081/keys 9411

It needs sallyport_identity.py of ../python beside it. The locations of nginx are in identity.conf. Who reaches the helper
can ask it, so it listens on 127.0.0.1 alone.
"""
import hashlib, http.server, sys
from cryptography import x509
from sallyport_identity import Refused, Verifier


class Helper(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        fields = self.headers

        def field(name):
            values = fields.get_all(name)
            return None if values is None else ", ".join(value.strip() for value in values)
        try:
            # nginx sets these three whatever the client has sent (identity.conf).
            method, target, scheme = (fields[f"X-Original-{name}"] for name in ("Method", "URI", "Scheme"))
            certificate = self.server.verifier.verify(method, target, scheme, field)
        except (Refused, OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
            self.log_message("refused: %s", reason)
            return self.answer(403)
        if certificate is None:
            return self.answer(204)
        name = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        self.answer(204, {"X-Client-Cert-SHA256": hashlib.sha256(certificate).hexdigest(),
                          "X-Client-DN": name.encode("ascii", "backslashreplace").decode()})

    def answer(self, status, fields={}):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Helper)
    server.verifier = Verifier(sys.argv[1])
    server.serve_forever()
