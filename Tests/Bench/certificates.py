"""The certificates of one run, made with the openssl command in its temporary folder."""
import base64
import copy
import hashlib
import os
import subprocess
import time


def openssl(*arguments, given=None):
    return subprocess.run(("openssl",) + arguments, input=given, check=True, capture_output=True).stdout


def element(tag, *contents):
    """An element of DER."""
    body = b"".join(contents)
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8 or 1, "big")
    return bytes([tag]) + (size if len(body) < 128 else bytes([0x80 | len(size)]) + size) + body


def elements(der):
    """The elements of a SEQUENCE, each with its header."""
    def end(start):
        size, first = der[start + 1], start + 2
        if size & 0x80:
            first, size = first + (size & 0x7F), int.from_bytes(der[first:first + (size & 0x7F)], "big")
        return first, first + size

    place, last = end(0)
    while place < last:
        yield der[place:end(place)[1]]
        place = end(place)[1]


class Certificates:
    """Paths of files.

    client_root signs an intermediate, which signs the client: client_chain holds the client and the intermediate.
    server_root signs the proxy's certificate (front) and the upstream's, which has the name upstream.test.
    rogue is a client's certificate that nobody trusts.
    wrong_upstreams are certificates and keys of upstreams that a proxy must refuse.
    upstream_pin is the Base64 of the SHA-256 of the upstream's public key.
    """

    def __init__(self, folder):
        self.folder, self._named = folder, {}
        self.client_root, client_root_key = self._issue("client-root", "/O=bench/CN=Client Root")
        middle = self._issue("client-middle", "/O=bench/CN=Client Intermediate", by=(self.client_root, client_root_key))
        self._client_authorities = [(self.client_root, client_root_key), middle]
        client, self.client_key = self._issue("client", "/O=bench/CN=client-1", "clientAuth", by=middle)
        self.client_chain = self._join("client-chain.pem", client, middle[0])
        self.rogue, self.rogue_key = self._issue("rogue", "/O=bench/CN=client-1", "clientAuth")

        self.server_root, server_root_key = self._issue("server-root", "/O=bench/CN=Server Root")
        root = (self.server_root, server_root_key)
        self.front, self.front_key = self._issue(
            "front", "/CN=front.test", "serverAuth", names="DNS:front.test,IP:127.0.0.1", by=root)
        self.front_both = self._join("front-both.pem", self.front_key, self.front)
        self._root = root
        name = "DNS:upstream.test"
        self.upstream, self.upstream_key = self._issue("upstream", "/CN=upstream.test", "serverAuth", name, root)
        self.wrong_upstreams = {
            "untrusted": self._issue("untrusted", "/CN=upstream.test", "serverAuth", name),
            "wrong-name": self._issue("wrong-name", "/CN=other.test", "serverAuth", "DNS:other.test", root),
            "wrong-key": self._issue("wrong-key", "/CN=upstream.test", "serverAuth", name, root),
        }
        public_key = openssl("x509", "-in", self.upstream, "-noout", "-pubkey")
        encoded = openssl("pkey", "-pubin", "-outform", "DER", given=public_key)
        self.upstream_pin = base64.b64encode(hashlib.sha256(encoded).digest()).decode()

    def with_rsa(self):
        """The same certificates, but the proxy's own has an RSA key of 2048 bits."""
        other = copy.copy(self)
        other.front, other.front_key = self._issue(
            "front-rsa", "/CN=front.test", "serverAuth", names="DNS:front.test,IP:127.0.0.1", by=self._root, rsa=True)
        other.front_both = self._join("front-rsa-both.pem", other.front_key, other.front)
        return other

    def named(self, count):
        """So many certificates of one key, for h0.test and so on: the paths of the certificates, and of the key."""
        if count not in self._named:
            self._named[count] = [
                self._issue(f"h{number}", f"/CN=h{number}.test", "serverAuth", f"DNS:h{number}.test", self._root,
                            key=self.front_key)[0] for number in range(count)]
        return self._named[count], self.front_key

    def revocations(self, count):
        """The lists of the clients' two authorities: the second has revoked so many certificates, none of which exists."""
        path = f"{self.folder}/revoked-{count}.crl"
        if not os.path.exists(path):
            root, middle = self._client_authorities
            with open(path, "wb") as out:
                out.write(self._revocations(root, 0) + self._revocations(middle, count))
        return path

    @staticmethod
    def _revocations(by, count):
        """One list. The openssl command would take minutes for so many serial numbers."""
        certificate, key = by
        fields = list(elements(next(elements(openssl("x509", "-in", certificate, "-outform", "DER")))))
        issuer = fields[5]
        algorithm = element(0x30, bytes.fromhex("06082a8648ce3d040302"))  # ecdsa-with-SHA256
        now, later = (element(0x17, time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() + seconds)).encode())
                      for seconds in (-60, 86_400))
        step = (1 << 126) // max(1, count)
        serials = [element(0x30, element(2, (1 << 126 | number * step).to_bytes(16, "big")), now)
                   for number in range(count)]
        number = element(0x30, bytes.fromhex("0603551d14"), element(4, element(2, b"\1")))
        signed = element(0x30, element(2, b"\1"), algorithm, issuer, now, later,
                         element(0x30, *serials) if serials else b"", element(0xA0, element(0x30, number)))
        signature = openssl("dgst", "-sha256", "-sign", key, given=signed)
        der = element(0x30, signed, algorithm, element(3, b"\0" + signature))
        return openssl("crl", "-inform", "DER", given=der)

    def _join(self, name, *parts):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            for part in parts:
                with open(part) as file:
                    out.write(file.read())
        return path

    def _issue(self, name, subject, usage=None, names=None, by=None, rsa=False, key=None):
        """Makes a certificate, and its key if there is no `key`: a P-256 key, or an RSA key. An authority's without
        `usage`, a self-signed one without `by`."""
        own, certificate, request, extensions = (
            os.path.join(self.folder, name + end) for end in (".key", ".pem", ".csr", ".ext"))
        if not key:
            key = own
            kind = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if rsa else ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
            openssl("genpkey", "-algorithm", *kind, "-out", key)
        openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        lines = ["subjectKeyIdentifier=hash"]
        if usage:
            lines += ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
            lines += ["extendedKeyUsage=" + usage]
        else:
            lines += ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
        if names:
            lines.append("subjectAltName=" + names)
        with open(extensions, "w") as out:
            out.write("\n".join(lines) + "\n")
        signer = ("-CA", by[0], "-CAkey", by[1], "-CAcreateserial") if by else ("-signkey", key)
        openssl("x509", "-req", "-in", request, "-sha256", "-days", "2", "-extfile", extensions, "-out", certificate,
                *signer)
        return certificate, key
