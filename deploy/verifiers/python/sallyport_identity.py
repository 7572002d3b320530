"""Verifies who a client is, as a sallyport proxy with "client_identity signed;" has signed it (RFC 9421).

    application = SallyportIdentity(application, "http://127.0.0.1:8081/keys")

wraps a WSGI application: environ["sallyport.certificate"] is then the DER of the client's verified certificate, None for a
client without one. Any other request gets 403. A nonce counts once in a process: several processes need a shared store,
given as seen(nonce, until), which returns whether the nonce is known. Needs python3-cryptography.
"""
import base64, json, re, threading, time, urllib.request
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from cryptography.hazmat.primitives.hashes import SHA256

# Exactly what the proxy writes: one label, these parameters, this order. A second signature doesn't match.
INPUT = re.compile(
    r'client=(\(("[!-~]+"(?: "[!-~]+")*)\);created=([0-9]{1,12});expires=([0-9]{1,12});nonce="([0-9a-f]{32})"'
    r';keyid="([A-Za-z0-9_-]{43})";alg="(ed25519|ecdsa-p256-sha256)";tag="client-identity")')
SIGNATURE = re.compile(r"client=:([A-Za-z0-9+/]+={0,2}):")
ALWAYS = ['"@method"', '"@authority"', '"@path"', '"@query"']
LIFETIME, SKEW, REFETCH = 60, 5, 10


class Refused(Exception): pass


class Verifier:
    def __init__(self, keys_url, seen=None):
        self.url, self.seen, self.lock = keys_url, seen or self.remember, threading.Lock()
        self.keys, self.fetched, self.nonces, self.pruned = {}, float("-inf"), {}, 0

    def remember(self, nonce, until):
        with self.lock:
            if time.time() - self.pruned > LIFETIME:
                self.pruned = time.time()
                self.nonces = {one: end for one, end in self.nonces.items() if end > self.pruned}
            known, self.nonces[nonce] = nonce in self.nonces, until
            return known

    def key(self, name):
        with self.lock:
            if name not in self.keys and time.monotonic() - self.fetched > REFETCH:
                self.fetched = time.monotonic()
                with urllib.request.urlopen(self.url, timeout=5) as answer:
                    self.keys = {key["kid"]: key for key in json.load(answer)["keys"]}
            return self.keys[name]

    def verify(self, method, target, scheme, field):
        """Returns the DER of the certificate, or None. field(name): all values of a field, joined by ", "; or None."""
        given, signature = INPUT.fullmatch(field("signature-input") or ""), SIGNATURE.fullmatch(field("signature") or "")
        if not (given and signature and target.startswith("/")): raise Refused("has no signature of the proxy")
        parameters, listed, created, expires, nonce, name, algorithm = given.groups()
        components, now = listed.split(" "), time.time()
        if components[:4] != ALWAYS or len(set(components)) != len(components): raise Refused("covers another request")
        for told in ("client-cert", "client-cert-chain"):
            if (field(told) is not None) != (f'"{told}"' in components): raise Refused(f"{told} is not signed")
        if not (now - LIFETIME - SKEW <= int(created) <= now + SKEW and now - SKEW <= int(expires)): raise Refused("too old")
        host, (path, mark, query) = (field("host") or "").lower(), target.partition("?")
        values = [method, host.removesuffix({"http": ":80", "https": ":443"}[scheme]), path, "?" + query]
        values += [None if component[1] == "@" else field(component[1:-1]) for component in components[4:]]
        if None in values: raise Refused("covers what the request lacks")
        lines = [f"{component}: {value}" for component, value in zip(components, values)]
        text = "\n".join(lines + [f'"@signature-params": {parameters}']).encode("latin-1")
        check(self.key(name), algorithm, base64.b64decode(signature[1]), text)
        # Last, so that nobody uses up the nonce of a request that is still to come.
        if self.seen(nonce, now + 2 * (LIFETIME + SKEW)): raise Refused("sent again")
        return base64.b64decode(field("client-cert").strip(":")) if '"client-cert"' in components else None


def check(key, algorithm, signature, text):
    def number(member):
        return base64.urlsafe_b64decode(key[member] + "==")
    try:
        if (key["kty"], key["crv"], algorithm) == ("OKP", "Ed25519", "ed25519"):
            return ed25519.Ed25519PublicKey.from_public_bytes(number("x")).verify(signature, text)
        if (key["kty"], key["crv"], algorithm, len(signature)) == ("EC", "P-256", "ecdsa-p256-sha256", 64):
            halves = [int.from_bytes(half, "big") for half in (signature[:32], signature[32:])]
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\4" + number("x") + number("y"))
            return point.verify(utils.encode_dss_signature(*halves), text, ec.ECDSA(SHA256()))
    except InvalidSignature: pass
    raise Refused("not authentic")


class SallyportIdentity(Verifier):
    def __init__(self, application, keys_url, seen=None):
        super().__init__(keys_url, seen)
        self.application = application

    def __call__(self, environ, start_response):
        def field(name):
            name = name.upper().replace("-", "_")
            return environ.get(name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + name)
        target = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""  # wsgiref has neither: all is refused there
        try:
            environ["sallyport.certificate"] = self.verify(
                environ["REQUEST_METHOD"], target, environ["wsgi.url_scheme"], field)
        except (Refused, OSError, ValueError, KeyError) as reason:
            environ["wsgi.errors"].write(f"refused by sallyport_identity: {reason!r}\n")
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"This request does not come from the proxy.\n"]
        return self.application(environ, start_response)
