extension PythonScript {
  /// abandon PORT FOLDER COUNT: COUNT handshakes abandoned after each step (connected; half a ClientHello; a whole one;
  /// half of the client's last flight), a hundred open at a time, while alice makes requests. Prints one JSON object: how
  /// many were abandoned by step, and how alice's requests ended.
  static let abandonSource = #"""
    import collections, json, socket, ssl, struct, sys, threading

    port, folder, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])

    def context(certificate):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.load_verify_locations(folder + "/ca.pem")
        made.load_cert_chain(folder + "/" + certificate + ".pem", folder + "/" + certificate + ".key")
        return made

    shared = context("alice")
    stop, done = threading.Event(), collections.Counter()

    def verified():
        # Ten requests for each connection.
        while not stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), 20) as plain, \
                        shared.wrap_socket(plain, server_hostname="localhost") as client:
                    for _ in range(10):
                        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        answer = b""
                        while not answer.endswith(b"\r\n\r\nok"):
                            piece = client.recv(65536)
                            if not piece: raise EOFError("ended")
                            answer += piece
                        done["ok" if answer.startswith(b"HTTP/1.1 200") else "other"] += 1
            except Exception as error:
                done["failed"] += 1
                done["failed: " + repr(error)] += 1

    def abandon(step):
        plain = socket.create_connection(("127.0.0.1", port), 20)
        if step == 0: return plain
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = shared.wrap_bio(inward, outward, server_hostname="localhost")
        try: client.do_handshake()
        except ssl.SSLWantReadError: pass
        hello = outward.read()
        if step == 1:
            plain.sendall(hello[:len(hello) // 2])
            return plain
        plain.sendall(hello)
        if step == 2:
            plain.recv(1)
            return plain
        while True:
            inward.write(plain.recv(65536))
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError: pass
        last = outward.read()
        plain.sendall(last[:len(last) // 2])
        return plain

    good = threading.Thread(target=verified)
    good.start()
    steps = collections.Counter()
    for step in range(4):
        held = []
        for number in range(count):
            try:
                held.append(abandon(step))
                steps[str(step)] += 1
            except OSError as error: done["flood: " + repr(error)] += 1
            if len(held) == 100 or number == count - 1:
                for index, plain in enumerate(held):
                    # Every other one is reset.
                    if index % 2: plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    plain.close()
                held = []
    stop.set()
    good.join()
    print(json.dumps({"steps": steps, "done": done}))
    """#
}
