"""The load of Tests/package: clients with keep-alive and a certificate, until /run/load.stop exists.

Usage: load.py PORT. Prints counts. "idle": sallyport closed a kept connection before the request's response began, which a
client may repeat (RFC 9112 section 9.3.1). "refused": nobody listened. "broken": anything else. "slowest": the longest
time in milliseconds from a connect to the whole answer. One more client begins a request and never ends it, as a WebSocket
would stay open.
"""
import collections
import http.client
import os
import socket
import ssl
import sys
import threading
import time

port = int(sys.argv[1])
context = ssl.create_default_context(cafile="/etc/sallyport/ca/ca.crt")
context.load_cert_chain("/root/alice.crt", "/root/alice.key")
counts = collections.Counter(ok=0, idle=0, refused=0, broken=0)
lock = threading.Lock()
reasons = collections.Counter()


def note(word, reason=None):
    with lock:
        counts[word] += 1
        if reason is not None:
            reasons[f"{type(reason).__name__}: {reason}"] += 1


def hold():
    try:
        with context.wrap_socket(socket.create_connection(("localhost", port), 40), server_hostname="localhost") as stream:
            stream.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1")
            while not os.path.exists("/run/load.stop"):
                time.sleep(0.1)
    except OSError:
        pass


slowest = 0.0


def probe():
    global slowest
    end = time.monotonic() + 120
    while not os.path.exists("/run/load.stop") and time.monotonic() < end:
        begun = time.monotonic()
        while True:
            connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=40)
            try:
                connection.request("GET", "/", headers={"Connection": "close"})
                if connection.getresponse().read() == b"the application\n":
                    break
            except (ConnectionError, http.client.HTTPException, OSError):
                time.sleep(0.02)
            if os.path.exists("/run/load.stop"):
                return
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.02)


def client():
    connection, used = None, 0
    # Bounded, should nobody make the file.
    end = time.monotonic() + 120
    while not os.path.exists("/run/load.stop") and time.monotonic() < end:
        try:
            if connection is None:
                connection, used = http.client.HTTPSConnection("localhost", port, context=context, timeout=40), 0
            connection.request("GET", "/")
            response = connection.getresponse()
            body = response.read()
            if response.status == 200 and body == b"the application\n":
                note("ok")
                open("/run/load.started", "a").close()
            else:
                note("broken", ValueError(f"status {response.status}"))
            used += 1
            if response.will_close:
                connection = None
        except ConnectionRefusedError:
            note("refused")
            connection = None
            time.sleep(0.02)
        except (ConnectionError, http.client.HTTPException, OSError) as error:
            isIdle = used > 0 and isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError))
            note("idle" if isIdle else "broken", error)
            connection = None
        time.sleep(0.005)


threads = [threading.Thread(target=client) for _ in range(8)]
threads += [threading.Thread(target=hold), threading.Thread(target=probe)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(" ".join(f"{name}={count}" for name, count in counts.items()), f"slowest={int(slowest * 1000)}", "|", "; ".join(f"{n} × {r}" for r, n in reasons.items()))
