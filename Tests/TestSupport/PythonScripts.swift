/// Programs of the suite that must be quick at many connections at once, or need a TLS stack that does what it is told
/// record by record: neither is true of a test in a debug build, nor of the openssl command.
package enum PythonScript: String, Sendable {
  case load, echo, records, sink, poison, ntlm, twins, many, picture, oauth, abandon, tls

  var source: String {
    switch self {
    case .load: Self.loadSource
    case .echo: Self.echoSource
    case .records: Self.recordsSource
    case .sink: Self.sinkSource
    case .poison: Self.poisonSource
    case .ntlm: Self.ntlmSource
    case .twins: Self.twinsSource
    case .many: Self.manySource
    case .picture: Self.pictureSource
    case .oauth: Self.oauthSource
    case .abandon: Self.abandonSource
    case .tls: Self.tlsSource
    }
  }

  /// load PORT FOLDER CLIENTS REQUESTS SEED: mutual-TLS clients, in 4 processes, that ask for files and have bodies
  /// echoed, and compare each byte. Prints one JSON object. FOLDER has `pattern`, ca.pem, client0.pem and so on, and
  /// files/SIZE for each size.
  private static let loadSource = #"""
    import collections, json, multiprocessing, os, random, socket, ssl, sys, threading

    port, folder, clients, requests, seed = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    pattern = open(folder + "/pattern", "rb").read()
    sizes = sorted(int(name) for name in os.listdir(folder + "/files"))
    processes = 4

    class Client:
        def __init__(self, number, identity):
            self.identity = identity
            self.random = random.Random(seed * 1000 + number)
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.load_verify_locations(folder + "/ca.pem")
            self.context.load_cert_chain(f"{folder}/client{identity}.pem", f"{folder}/client{identity}.key")
            self.context.maximum_version = ssl.TLSVersion.TLSv1_2 if number % 4 == 3 else ssl.TLSVersion.TLSv1_3
            self.socket, self.opened = None, 0
            self.counts = collections.Counter()

        def open(self):
            plain = socket.create_connection(("127.0.0.1", port), 60)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket = self.context.wrap_socket(plain, server_hostname="localhost")
            self.rest, self.opened = b"", self.opened + 1

        def some(self):
            piece = self.rest or self.socket.recv(262144)
            self.rest = b""
            if not piece: raise EOFError("closed in the middle of an answer")
            return piece

        def until(self, mark):
            data = self.some()
            while mark not in data: data += self.some()
            found, _, self.rest = data.partition(mark)
            return found

        def exactly(self, count):
            pieces = []
            while count > 0:
                piece = self.some()
                if len(piece) > count: piece, self.rest = piece[:count], piece[count:]
                pieces.append(piece)
                count -= len(piece)
            return b"".join(pieces)

        def answer(self):
            lines = self.until(b"\r\n\r\n").split(b"\r\n")
            fields = {k.lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines[1:])}
            if fields.get(b"transfer-encoding") == b"chunked":
                pieces = []
                while size := int(self.until(b"\r\n"), 16):
                    pieces.append(self.exactly(size))
                    if self.exactly(2) != b"\r\n": raise ValueError("no CRLF after a chunk")
                self.exactly(2)
                body = b"".join(pieces)
            else:
                body = self.exactly(int(fields[b"content-length"]))
            return int(lines[0].split()[1]), fields, body

        def size(self):
            dice = self.random.random()
            for share, most in (0.60, 2048), (0.90, 16385), (0.985, 131072), (0.9993, 1048576), (1, 5242880):
                if dice < share: return self.random.randrange(most + 1)

        def ask(self, number):
            if self.socket is None: self.open()
            tag = b"%d-%d" % (self.identity, self.random.getrandbits(48))
            if number % 2:
                size = self.random.choices(sizes, [2000 if s < 20000 else 100 if s < 200000 else 5 if s < 2000000 else 1
                                                   for s in sizes])[0]
                expected = pattern[size % 4096:][:size]
                self.socket.sendall(b"GET /files/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % size)
            else:
                size, start = self.size(), self.random.randrange(1048576)
                expected = pattern[start:start + size]
                head = b"POST /echo/%s HTTP/1.1\r\nHost: localhost\r\nX-Answer: %s\r\n" % (
                    tag, self.random.choice((b"length", b"chunked")))
                if self.random.random() < 0.3:
                    cut = self.random.randrange(size + 1)
                    body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (expected[:cut], expected[cut:]) if p)
                    self.socket.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")
                else:
                    self.socket.sendall(head + b"Content-Length: %d\r\n\r\n" % size + expected)
            status, fields, body = self.answer()
            if status != 200: raise ValueError(f"status {status}")
            if body != expected: raise ValueError(f"another body: {len(body)} bytes for {size}")
            if number % 2 == 0:
                if fields.get(b"x-tag") != tag: raise ValueError(f"the answer to {fields.get(b'x-tag')} for {tag}")
                if fields.get(b"x-client") != b"client%d" % self.identity: raise ValueError("another client's name")
                self.counts["upstream"] = max(self.counts["upstream"], int(fields[b"x-connection"]))
            if fields.get(b"connection", b"").lower() == b"close":
                self.socket.close()
                self.socket = None
            self.counts["answers"] += 1
            self.counts["bytes"] += size

        def run(self, faults):
            for number in range(requests):
                try: self.ask(number)
                except Exception as fault:
                    faults.append(f"request {number}: {type(fault).__name__}: {fault}")
                    if self.socket: self.socket.close()
                    self.socket = None
                    if len(faults) > 20: return
            if self.socket: self.socket.close()

    def work(process, results):
        faults, all = [], [Client(n, process) for n in range(process, clients, processes)]
        threads = [threading.Thread(target=client.run, args=(faults,)) for client in all]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        results.put((sum(c.counts["answers"] for c in all), sum(c.counts["bytes"] for c in all),
                     max((c.counts["upstream"] for c in all), default=0), sum(c.opened for c in all), faults))

    if __name__ == "__main__":
        results = multiprocessing.Queue()
        workers = [multiprocessing.Process(target=work, args=(n, results)) for n in range(processes)]
        for worker in workers: worker.start()
        got = [results.get() for _ in workers]
        for worker in workers: worker.join()
        print(json.dumps({"answers": sum(g[0] for g in got), "bytes": sum(g[1] for g in got),
                          "upstreamConnections": max(g[2] for g in got), "connections": sum(g[3] for g in got),
                          "faults": sum((g[4] for g in got), [])}))
    """#

  /// echo PORT: answers each request with its own body, the last part of its target and the number of the connection.
  private static let echoSource = #"""
    import asyncio, sys

    class Echo(asyncio.Protocol):
        connections = 0

        def connection_made(self, transport):
            Echo.connections += 1
            self.number, self.transport, self.data, self.head = Echo.connections, transport, bytearray(), None

        def data_received(self, data):
            self.data += data
            while self.step(): pass

        def step(self):
            if self.head is None:
                end = self.data.find(b"\r\n\r\n")
                if end < 0: return False
                lines = bytes(self.data[:end]).split(b"\r\n")
                self.head = {k.lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines[1:])}
                self.tag = lines[0].split()[1].rpartition(b"/")[2]
                del self.data[:end + 4]
                self.at, self.pieces = 0, []
            if self.head.get(b"transfer-encoding") == b"chunked":
                while True:
                    end = self.data.find(b"\r\n", self.at)
                    if end < 0: return False
                    size = int(self.data[self.at:end], 16)
                    if len(self.data) < end + 4 + size: return False
                    self.at = end + 4 + size
                    if size == 0: break
                    self.pieces.append(bytes(self.data[end + 2:end + 2 + size]))
                body = b"".join(self.pieces)
            else:
                self.at = int(self.head.get(b"content-length", b"0"))
                if len(self.data) < self.at: return False
                body = bytes(self.data[:self.at])
            del self.data[:self.at]
            common = b"HTTP/1.1 200 OK\r\nX-Connection: %d\r\nX-Tag: %s\r\nX-Client: %s\r\n" % (
                self.number, self.tag, self.head.get(b"x-client", b""))
            if self.head.get(b"x-answer") == b"chunked":
                cut = len(body) // 3
                chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:cut], body[cut:]) if p)
                self.transport.write(common + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
            else:
                self.transport.write(common + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.head = None
            return True

    async def main():
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", int(sys.argv[1]), backlog=512)
        await server.serve_forever()

    asyncio.run(main())
    """#

  /// records PORT FOLDER: a request of which each byte is a TLS record of its own; prints the answer.
  private static let recordsSource = #"""
    import socket, ssl, sys

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(sys.argv[2] + "/ca.pem")
    context.load_cert_chain(sys.argv[2] + "/alice.pem", sys.argv[2] + "/alice.key")
    plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire = context.wrap_socket(plain, server_hostname="localhost")
    body = b"0123456789" * 50
    for byte in (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)):
        wire.send(bytes([byte]))
    while piece := wire.recv(65536): sys.stdout.buffer.write(piece)
    """#

  /// poison PORT: a TLS server, with server.pem of its folder, whose answer is the target. On the first connection that
  /// asks something another answer follows at once, that nobody asked for; prints `dropped` when that connection is.
  private static let poisonSource = #"""
    import socket, ssl, sys

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem", "server.key")
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    poisoned = False
    while True:
        plain, _ = listener.accept()
        try:
            wire = context.wrap_socket(plain, server_side=True)
            data = b""
            while piece := wire.recv(65536):
                data += piece
                while b"\r\n\r\n" in data:
                    head, _, data = data.partition(b"\r\n\r\n")
                    target = head.split()[1]
                    wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(target), target))
                    if not poisoned:
                        wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
                        poisoned = True
            print("dropped", flush=True)
        except OSError: print("dropped" if poisoned else "", flush=True)
        plain.close()
    """#

  /// sink PORT: takes a body of any length, and answers with how long it was.
  private static let sinkSource = #"""
    import socket, sys

    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    room = bytearray(1 << 20)
    while True:
        wire, _ = listener.accept()
        data = b""
        while b"\r\n\r\n" not in data:
            piece = wire.recv(65536)
            if not piece: break
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if lengths:
            length, got = int(lengths[0]), len(body)
            while got < length:
                count = wire.recv_into(room)
                if not count: break
                got += count
            text = b"%d" % got
            wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        wire.close()
    """#

  /// picture FILE RRGGBB: prints how many colours a PNG has, and what part in a hundred of it has this one.
  private static let pictureSource = #"""
    import collections, struct, sys, zlib

    data, at, packed = open(sys.argv[1], "rb").read(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        part = data[at + 8:at + 8 + length]
        if kind == b"IHDR": width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", part)
        if kind == b"IDAT": packed += part
        at += length + 12
    size = {2: 3, 6: 4}[colour]
    if depth != 8 or interlaced: sys.exit("not a PNG of Chromium's kind")
    rows, above, counts = zlib.decompress(packed), bytes(width * size), collections.Counter()
    for start in range(0, height * (width * size + 1), width * size + 1):
        row = bytearray(rows[start + 1:start + 1 + width * size])
        for x in range(len(row)):
            a, b, c = (row[x - size], above[x], above[x - size]) if x >= size else (0, above[x], 0)
            near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[x] = row[x] + (0, a, b, (a + b) // 2, near)[rows[start]] & 255
        counts.update(bytes(row[x:x + 3]) for x in range(0, len(row), size))
        above = row
    print(len(counts), 100 * counts[bytes.fromhex(sys.argv[2])] // (width * height))
    """#
}

extension Scene {
  /// Starts a script that listens on a port of its own, and waits until it does.
  package func listening(_ script: PythonScript) async throws -> UInt16 {
    let port = try port()
    let process = try ChildProcess(
      "python3", [write("\(script).py", text: script.source), "\(port)"], in: folder,
      output: path("\(script).out"), errors: path("\(script).err"))
    atEnd { process.stop() }
    onFailure(show: "\(script).py") { self.text("\(script).err") }
    try await until("\(script).py to listen") {
      if let ending = process.ending { throw ToolFailed(description: "\(script).py: \(ending)") }
      return (try? Wire.dial(port: port)) != nil
    }
    return port
  }

  /// Runs a script to its end.
  package func python(
    _ script: PythonScript, _ arguments: String..., within bound: Duration = .seconds(40)
  ) async throws -> ToolResult {
    try await run("python3", [write("\(script).py", text: script.source)] + arguments, within: bound)
  }
}
