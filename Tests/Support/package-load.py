"""The load of Tests/package: clients with keep-alive and a certificate, until /run/load.stop exists.

Usage: load.py PORT. Prints counts. "idle": sallyport closed a kept connection before the request's response began, which a
client may repeat (RFC 9112 section 9.3.1). "refused": nobody listened. "broken": anything else.
"""
import collections
import http.client
import os
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
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(" ".join(f"{name}={count}" for name, count in counts.items()), "|", "; ".join(f"{n} × {r}" for r, n in reasons.items()))
