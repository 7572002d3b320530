"""Checks of a proxy before its cost counts: one that verifies nothing is cheap, and worth nothing."""
import os
import socket
import ssl

import processes
from loads import LoadErrors, go
from processes import BenchError


def exchange(port, request, certificates, chain, key, until=None):
    """What comes back, until the end or until it is as long as `until`; None and the reason when TCP or TLS fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(certificates.server_root)
    if chain:
        context.load_cert_chain(chain, key)
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as wire:
            with context.wrap_socket(wire, server_hostname="front.test") as session:
                session.sendall(request)
                while (until is None or len(received) < until) and (part := session.recv(65536)):
                    received += part
    except OSError as error:
        return None, str(error)
    return received, "closed without a response"


def fetch(port, path, certificates, chain=None, key=None):
    """Status and body of one request, or None and the reason when TCP or TLS fails."""
    request = f"GET {path} HTTP/1.1\r\nHost: front.test\r\nConnection: close\r\n\r\n".encode()
    received, why = exchange(port, request, certificates, chain, key)
    if received is None:
        return None, why
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return (int(words[1]), body) if len(words) > 1 else (None, why)


def expecting(seen):
    def expect(what, holds, got):
        seen[what] = str(got)[:90]
        if not holds:
            raise BenchError(f"check failed: {what}: {str(got)[:200]}")
    return expect


def check(stage, start, family="http"):
    """Raises BenchError unless the proxy demands and verifies what it must. Returns what was seen.

    start(None) starts the proxy; start("wrong-name") starts it before an upstream that it must refuse.
    """
    return check_requests(stage, start) if family == "http" else check_echoes(stage, start, family)


def check_requests(stage, start):
    certificates, seen = stage.certificates, {}
    client = (certificates.client_chain, certificates.client_key)
    expect = expecting(seen)
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


def check_echoes(stage, start, family):
    """The same over TCP, where no byte may pass that must not."""
    certificates, seen = stage.certificates, {}
    client = (certificates.client_chain, certificates.client_key)
    expect, sent = expecting(seen), os.urandom(100_000)

    def echo(proxy, chain=None, key=None):
        received, why = exchange(proxy.port, sent, certificates, chain, key, until=len(sent))
        return received or b"", why

    with start(None) as proxy:
        received, why = echo(proxy, *client)
        expect(f"{family}: with a client certificate", received == sent, f"{len(received)} bytes, {why}")
        for what, shown in (("without a", ()), ("with an untrusted", (certificates.rogue, certificates.rogue_key))):
            received, why = echo(proxy, *shown)
            expect(f"{family}: {what} client certificate", not received, why)
        bare = stage.tools.tls("handshake", proxy.port, shows_certificate=False, conns=1, seconds=0.2, echo=16)
        try:
            go(bare)
            raise BenchError("check failed: the load generator got an echo without a certificate")
        except LoadErrors as error:
            expect(f"{family}: the load generator without a certificate", True, error)
        finally:
            processes.stop(bare)
        refuses = proxy.kind.refuses if family == "tcp" else ()
    for wrong in refuses:
        with start(wrong) as proxy:
            received, why = echo(proxy, *client)
            expect(f"{family}: upstream: {wrong}", not received, why)
    return seen
