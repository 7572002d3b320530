extension PythonScript {
  /// ntlm PORT: a server written from MS-NLMP that knows everybody of domain CORP by the password pw-NAME, proves each
  /// message, MIC included, and answers with the user's name. Prints `CONNECTION METHOD TARGET BODY USER SAID` for each
  /// request. With a file ntlm-old in its folder it sends no time, and checks the LMv2 response.
  static let ntlmSource = #"""
    import base64, hashlib, hmac, os, socket, ssl, struct, sys, threading, time

    port, old, binding = int(sys.argv[1]), os.path.exists("ntlm-old"), bytes(16)
    if tls := os.path.exists("ntlm-tls.pem"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("ntlm-tls.pem", "ntlm-tls.key")
        certificate = ssl.PEM_cert_to_DER_cert(open("ntlm-tls.pem").read().split("-----END")[0] + "-----END CERTIFICATE-----\n")
        data = b"tls-server-end-point:" + hashlib.sha256(certificate).digest()
        binding = hashlib.md5(bytes(16) + struct.pack("<I", len(data)) + data).digest()

    def md4(data):
        rotate = lambda x, n: (x << n | (x & 0xffffffff) >> 32 - n) & 0xffffffff
        a, b, c, d = state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476]
        data += b"\x80" + bytes((55 - len(data)) % 64) + struct.pack("<Q", len(data) * 8)
        f = lambda x, y, z: x & y | ~x & z
        g = lambda x, y, z: x & y | x & z | y & z
        h = lambda x, y, z: x ^ y ^ z
        for start in range(0, len(data), 64):
            x = struct.unpack("<16I", data[start:start + 64])
            a, b, c, d = state
            for mix, add, order, shifts in (
                (f, 0, range(16), (3, 7, 11, 19)),
                (g, 0x5a827999, [r + 4 * k for r in range(4) for k in range(4)], (3, 5, 9, 13)),
                (h, 0x6ed9eba1, (0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15))):
                for step, k in enumerate(order):
                    a, b, c, d = d, rotate(a + mix(b, c, d) + x[k] + add & 0xffffffff, shifts[step % 4]), b, c
            state = [s + v & 0xffffffff for s, v in zip(state, (a, b, c, d))]
        return struct.pack("<4I", *state)

    mac = lambda key, data: hmac.new(key, data, hashlib.md5).digest()
    wide = lambda text: text.encode("utf-16-le")
    pair = lambda kind, value: struct.pack("<HH", kind, len(value)) + value
    times = lambda: struct.pack("<Q", int((time.time() + 11644473600) * 10**7))

    def challenge(nonce):
        info = pair(2, wide("CORP")) + pair(1, wide("SRV")) + (b"" if old else pair(7, times())) + pair(0, b"")
        name = wide("CORP")
        return (b"NTLMSSP\0" + struct.pack("<IHHI", 2, len(name), len(name), 56) + struct.pack("<I", 0xa28a8205)
                + nonce + bytes(8) + struct.pack("<HHI", len(info), len(info), 56 + len(name)) + bytes(8) + name + info)

    def verify(first, second, nonce, third):
        """The user of a type 3 message that proves its password, pw- and the name; else None."""
        field = lambda at: (lambda n, _, o: third[o:o + n])(*struct.unpack("<HHI", third[at:at + 8]))
        assert third[:12] == b"NTLMSSP\0\3\0\0\0"
        lm, nt, domain, user = field(12), field(20), field(28), field(36)
        name = user.decode("utf-16-le")
        key = mac(md4(wide("pw-" + name)), wide(name.upper()) + domain)
        if domain != wide("CORP") or len(nt) < 44 or mac(key, nonce + nt[16:]) != nt[:16]: return None
        if old: return name if lm == mac(key, nonce + lm[16:24]) + lm[16:24] else None
        at, flags = 44, 0
        while nt[at:at + 2] != b"\0\0":
            kind, size = struct.unpack("<HH", nt[at:at + 4])
            if kind == 10 and nt[at + 4:at + 4 + size] != binding: return None
            if kind == 6: flags = struct.unpack("<I", nt[at + 4:at + 8])[0]
            at += 4 + size
        blank = third[:72] + bytes(16) + third[88:]
        return name if flags & 2 and third[72:88] == mac(mac(key, nt[:16]), first + second + blank) else None

    def serve(wire, number):
        try:
            if tls: wire = context.wrap_socket(wire, server_side=True)
        except OSError: return
        data, who, first, nonce = b"", None, None, None
        def more():
            nonlocal data
            piece = wire.recv(65536)
            if not piece: raise EOFError
            data += piece
        def answer(status, fields=(), body=b""):
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n" + "".join(f + "\r\n" for f in fields)
            wire.sendall(head.encode() + b"\r\n" + (b"" if method == "HEAD" else body))
        try:
            while True:
                while b"\r\n\r\n" not in data: more()
                head, _, data = data.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split()
                fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
                size = int(fields.get("content-length", 0))
                while len(data) < size: more()
                body, data = data[:size], data[size:]
                said = fields.get("authorization", "")
                sys.stdout.write(f"{number} {method} {target} {len(body)} {who} {said[:5]}\n"); sys.stdout.flush()
                if said.startswith("NTLM "):
                    token = base64.b64decode(said[5:])
                    if token[8] == 1:
                        who, first, nonce = None, token, os.urandom(8)
                        second = challenge(nonce)
                        answer("401 Unauthorized", ["WWW-Authenticate: NTLM " + base64.b64encode(second).decode()], b"more")
                        continue
                    who, nonce = verify(first, second, nonce, token) if nonce else None, None
                elif said: who = None
                if who is None: answer("401 Unauthorized", ["WWW-Authenticate: NTLM"], b"who are you?")
                else: answer("200 OK", ["WWW-Authenticate: leaked", "X-Body: %d" % len(body)], who.encode())
        except (EOFError, OSError): pass
        wire.close()

    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    number = 0
    while True:
        wire, _ = listener.accept()
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        threading.Thread(target=serve, args=(wire, number), daemon=True).start()
    """#

  /// twins PORT FOLDER REQUESTS NAME…: a mutual-TLS client for each name, all at once, that ask for /who/NAME/N and
  /// must be answered with their name. Prints how many were not.
  static let twinsSource = #"""
    import http.client, ssl, sys, threading

    port, folder, requests, names = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    wrong = []

    def run(name):
        context = ssl.create_default_context(cafile=folder + "/ca.pem")
        context.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        for number in range(requests):
            body = b"x" * (number % 50) if number % 3 == 0 else None
            connection.request("POST" if body is not None else "GET", f"/who/{name}/{number}", body=body)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200 or said != name.encode() or answer.getheader("WWW-Authenticate"):
                wrong.append((name, number, answer.status, said[:40]))

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(wrong), wrong[:3])
    """#

  /// many PORT FOLDER NAME PATH REQUESTS LANES: one request, then the others over so many connections at once. Prints how
  /// many were not answered with 200 and the last part of PATH's folder.
  static let manySource = #"""
    import http.client, ssl, sys, threading

    port, folder, name, path, total, lanes = int(sys.argv[1]), *sys.argv[2:5], *map(int, sys.argv[5:7])
    context = ssl.create_default_context(cafile=folder + "/ca.pem")
    context.load_cert_chain(f"{folder}/{name}.pem", f"{folder}/{name}.key")
    bad = []

    def run(count):
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        for _ in range(count):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or body.decode() not in path: bad.append((answer.status, body[:40]))

    run(1)
    threads = [threading.Thread(target=run, args=((total - 1 + lane) // lanes,)) for lane in range(lanes)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(len(bad), bad[:3])
    """#
}
