"""The certificates of one run, made with the openssl command in its temporary folder."""
import base64
import copy
import hashlib
import os
import subprocess


def openssl(*arguments, given=None):
    return subprocess.run(("openssl",) + arguments, input=given, check=True, capture_output=True).stdout


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
