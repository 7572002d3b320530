"""Checks of a proxy before its cost counts: one that verifies nothing is cheap, and worth nothing."""
import socket
import ssl

from processes import BenchError


def fetch(port, path, certificates, chain=None, key=None):
    """Status and body of one request, or None and the reason when TCP or TLS fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(certificates.server_root)
    if chain:
        context.load_cert_chain(chain, key)
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as wire:
            with context.wrap_socket(wire, server_hostname="front.test") as session:
                session.sendall(f"GET {path} HTTP/1.1\r\nHost: front.test\r\nConnection: close\r\n\r\n".encode())
                while part := session.recv(65536):
                    received += part
    except OSError as error:
        return None, str(error)
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]), body) if len(words) > 1 else (None, "closed without a response")


def check(stage, start):
    """Raises BenchError unless the proxy demands and verifies what it must. Returns what was seen.

    start(None) starts the proxy; start("wrong-name") starts it before an upstream that it must refuse.
    """
    certificates, seen = stage.certificates, {}
    client = (certificates.client_chain, certificates.client_key)

    def expect(what, holds, got):
        seen[what] = str(got)[:90]
        if not holds:
            raise BenchError(f"check failed: {what}: {str(got)[:200]}")

    with start(None) as proxy:
        status, body = fetch(proxy.port, "/1k", certificates, *client)
        expect("with a client certificate", status == 200 and len(body) >= 1024, status or body)
        status, body = fetch(proxy.port, "/1k", certificates)
        expect("without a client certificate", status is None or status >= 400, status or body)
        status, body = fetch(proxy.port, "/1k", certificates, certificates.rogue, certificates.rogue_key)
        expect("with an untrusted client certificate", status is None or status >= 400, status or body)
        status, body = fetch(proxy.port, "/dn", certificates, *client)
        if proxy.kind.names_client:
            expect("the client's name at the upstream", status == 200 and b"client-1" in body, body)
        bare = stage.tools.wrk(proxy.port, "/1k", 2, 1, shows_certificate=False)
        expect("the load generator without a certificate gets no 2xx", bare["requests"] == bare["status"], bare)
        refuses = proxy.kind.refuses
    for wrong in refuses:
        with start(wrong) as proxy:
            status, body = fetch(proxy.port, "/1k", certificates, *client)
            expect(f"upstream: {wrong}", status is None or status >= 500, status or body)
    return seen
