import Foundation
import Glibc

/// A DNS server in Python that says what its zone file says at that moment, and more than an honest server would.
package final class NameServer: Sendable {
  package let port: UInt16
  private let scene: Scene
  private let name: String
  private let process: ChildProcess

  /// `zone`: see `write`.
  package init(_ scene: Scene, _ zone: String, name: String = "dns", port: UInt16? = nil) async throws {
    self.scene = scene
    self.name = name
    try Self.write(zone, scene, name)
    let script = try scene.write("\(name).py", text: Self.source)
    let process = try ChildProcess(
      "python3", [script, scene.folder, name, "\(port ?? 0)"], in: scene.folder, output: scene.path("\(name).out"),
      errors: scene.path("\(name).err"))
    self.process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).out") + scene.text("\(name).err") }
    var found: UInt16?
    try await until("the name server to listen") {
      if let ending = process.ending { throw ToolFailed(description: "the name server ended, \(ending)") }
      let first = Self.lines(scene.text("\(name).out")).first
      found = first.flatMap { $0.count == 2 && $0[0] == "up" ? UInt16($0[1]) : nil }
      return found != nil
    }
    self.port = found ?? 0
  }

  package func stop() { process.stop() }

  /// Replaces the zone: a JSON object. A key is `NAME` or `NAME/TYPE` (a, aaaa, srv); its value has the records `a`,
  /// `aaaa`, `srv`, `cname` (also a list of names in a row), `count` (so many addresses), `ttl`, `rcode`, and `how` the
  /// server answers (see the script).
  package func write(_ zone: String) throws { try Self.write(zone, scene, name) }

  private static func write(_ zone: String, _ scene: Scene, _ name: String) throws {
    let path = try scene.write("\(name).new", text: zone)
    guard rename(path, scene.path("\(name).zone")) == 0 else { throw ToolFailed(description: "rename") }
  }

  /// A line for each question: transport, name, type, id and the source port.
  package var questions: [[String]] {
    Self.lines(scene.text("\(name).out")).filter { $0.count == 5 && ($0[0] == "udp" || $0[0] == "tcp") }
  }

  /// The words of the lines that are written whole.
  private static func lines(_ text: String) -> [[String]] {
    text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
      .map { $0.split(separator: " ").map(String.init) }
  }

  package func count(_ transport: String, _ host: String, _ type: String = "a") -> Int {
    questions.count { $0[0] == transport && $0[1] == host && $0[2] == type }
  }

  private static let source = #"""
    import json, os, random, socket, struct, sys, threading, time
    folder, name, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    types = {1: "a", 28: "aaaa", 33: "srv"}
    lock = threading.Lock()

    def say(*words):
        with lock:
            sys.stdout.write(" ".join(map(str, words)) + "\n")
            sys.stdout.flush()

    def encode(name):
        return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"

    def record(owner, kind, ttl, data): return encode(owner) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data

    def parse(query):
        parts, place = [], 12
        while query[place]:
            parts.append(query[place + 1:place + 1 + query[place]].decode())
            place += 1 + query[place]
        return ".".join(parts).lower(), struct.unpack("!H", query[place + 1:place + 3])[0], query[12:place + 5]

    def records(asked, kind, entry):
        ttl, owner, all = entry.get("ttl", 60), asked, []
        aliases = entry.get("cname", [])
        for target in [aliases] if isinstance(aliases, str) else aliases:
            all.append(record(owner, 5, ttl, encode(target)))
            owner = target
        if kind == 1:
            for address in entry.get("a", []): all.append(record(owner, 1, ttl, socket.inet_aton(address)))
            for number in range(entry.get("count", 0)):
                all.append(record(owner, 1, ttl, struct.pack("!I", 0x7f000000 + 256 + number)))
            for other, address in entry.get("forged", []): all.append(record(other, 1, ttl, socket.inet_aton(address)))
        if kind == 28:
            for address in entry.get("aaaa", []):
                all.append(record(owner, 28, ttl, socket.inet_pton(socket.AF_INET6, address)))
        if kind == 33:
            for priority, weight, port, target in entry.get("srv", []):
                all.append(record(owner, 33, ttl, struct.pack("!HHH", priority, weight, port) + encode(target)))
        return all

    def message(query, asked, kind, question, entry, cut=False, id=None):
        all = [] if cut else records(asked, kind, entry)
        id = struct.unpack("!H", query[:2])[0] if id is None else id
        flags = 0x8180 | entry.get("rcode", 0) | (0x0200 if cut else 0)
        return struct.pack("!HHHHHH", id, flags, 1, len(all), 0, 0) + question + b"".join(all)

    def entry_of(asked, kind):
        zone = json.load(open(f"{folder}/{name}.zone"))
        return zone.get(f"{asked}/{types.get(kind, kind)}", zone.get(asked, {"rcode": 3}))

    def answers(query, isUDP):
        asked, kind, question = parse(query)
        entry = entry_of(asked, kind)
        how = entry.get("how", "answer")
        right = message(query, asked, kind, question, entry)
        id = struct.unpack("!H", query[:2])[0]
        # Nothing is sent until that file stands in the folder.
        if "until" in entry:
            while not os.path.exists(f"{folder}/{entry['until']}"): time.sleep(0.01)
        if how == "silent": return []
        if how == "garbage": return [bytes(random.randrange(256) for _ in range(random.randrange(1, 300))) for _ in range(20)]
        # The id and the question are right, and the rest is not.
        if how == "noise": return [right[:4] + struct.pack("!HHHH", 1, 5000, 7, 9) + question + os.urandom(200)]
        if how == "short": return [right[:-3]]
        if how == "wrong-id": return [message(query, asked, kind, question, entry, id=(id + n) % 65536) for n in range(1, 50)]
        if how == "wrong-question": return [message(query, asked, kind, encode("evil.test") + question[-4:], entry)]
        if how == "two":
            second = message(query, asked, kind, question, {"a": ["127.0.0.9"], "ttl": 600})
            return [right, second]
        if isUDP and (how == "truncated" or len(right) > 512):
            return [message(query, asked, kind, question, entry, cut=True)]
        if how == "truncated-twice": return [message(query, asked, kind, question, entry, cut=True)]
        return [right]

    # The same port for both, which a connection of another test may have.
    for _ in range(100):
        udp, tcp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind(("127.0.0.1", wanted))
            port = tcp.getsockname()[1]
            udp.bind(("127.0.0.1", port))
            tcp.listen(64)
            break
        except OSError:
            udp.close()
            tcp.close()
            time.sleep(0.05)
    else: sys.exit("no port")
    say("up", port)

    def note(transport, query, address):
        asked, kind, _ = parse(query)
        say(transport, asked, types.get(kind, kind), query[:2].hex(), address[1])

    def exactly(peer, count):
        data = b""
        while len(data) < count:
            piece = peer.recv(count - len(data))
            if not piece: raise EOFError()
            data += piece
        return data

    def serve(peer, address):
        try:
            while True:
                query = exactly(peer, struct.unpack("!H", exactly(peer, 2))[0])
                note("tcp", query, address)
                asked, kind, _ = parse(query)
                entry = entry_of(asked, kind)
                if entry.get("tcp") == "close": return peer.close()
                for answer in answers(query, False):
                    whole = struct.pack("!H", len(answer)) + answer
                    step = 700 if entry.get("tcp") == "pieces" else len(whole)
                    for place in range(0, len(whole), step):
                        peer.sendall(whole[place:place + step])
                        if step < len(whole): time.sleep(0.002)
        except (EOFError, OSError): peer.close()

    def accept():
        while True:
            peer, address = tcp.accept()
            threading.Thread(target=serve, args=(peer, address), daemon=True).start()

    def reply(query, address):
        for answer in answers(query, True): udp.sendto(answer, address)

    threading.Thread(target=accept, daemon=True).start()
    while True:
        query, address = udp.recvfrom(4096)
        note("udp", query, address)
        threading.Thread(target=reply, args=(query, address), daemon=True).start()
    """#
}
