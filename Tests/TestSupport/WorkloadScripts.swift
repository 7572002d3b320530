import Bytes
package import Crypto
import Glibc

/// An agent of the SPIFFE Workload API, of the grpcio library: a program in Python, without generated code. It sends what a
/// file says, and again whenever the file is replaced.
package enum WorkloadScripts {
  /// SOCKET FILE: the first byte of the file says what to do: `M` sends the rest as a message, `E` ends the call with the
  /// status that follows, `S` sends nothing. Prints a line for each call.
  package static let agent = #"""
    import grpc, os, sys, threading, time
    from concurrent import futures
    socket, file = sys.argv[1:3]
    same = lambda value: value

    def fetch(request, context):
        metadata = dict(context.invocation_metadata())
        if metadata.get("workload.spiffe.io") != "true":
            print("refused", flush=True)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "security header missing from request")
        if request != b"": context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is empty in this API")
        print("call", flush=True)
        last = None
        while context.is_active():
            state = os.stat(file)
            if (state.st_ino, state.st_mtime_ns) != last:
                last = (state.st_ino, state.st_mtime_ns)
                what = open(file, "rb").read()
                if what[:1] == b"M": yield what[1:]
                if what[:1] == b"E":
                    code = {c.name: c for c in grpc.StatusCode}[what[1:].decode()]
                    context.abort(code, "by the test")
            time.sleep(0.02)

    handlers = {"FetchX509SVID": grpc.unary_stream_rpc_method_handler(fetch, same, same)}
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("SpiffeWorkloadAPI", handlers),))
    server.add_insecure_port("unix:" + socket)
    server.start()
    print("up", flush=True)
    server.wait_for_termination()
    """#
}

/// A trust domain of SPIFFE made for one test: its authority, and the SVIDs of it and beside it that must be told apart.
package struct TestTrustDomain: Sendable {
  package let name: String
  package let root: CertifiedKey
  package let intermediate: CertifiedKey

  package init(_ name: String = "example.org") throws {
    self.name = name
    root = try CertificateBuilder(
      commonName: "\(name) Root", .authority(pathLength: nil), names: [.uri("spiffe://\(name)")]
    ).selfSigned(key: .generate())
    intermediate = try CertificateBuilder(
      commonName: "\(name) Intermediate", .authority(pathLength: nil), names: [.uri("spiffe://\(name)")]
    ).signed(by: root, key: .generate())
  }

  /// An SVID of a path of this trust domain. `uris`: others than its ID.
  package func svid(
    _ path: String = "/ns/prod/sa/web", uris: [String]? = nil, seconds: Int64 = 3600, by authority: CertifiedKey? = nil,
    purpose: CertificateBuilder.Purpose = .leaf([.serverAuth, .clientAuth]),
    names: [CertificateBuilder.AlternativeName] = []
  ) throws -> CertifiedKey {
    var builder = CertificateBuilder(
      commonName: "workload", purpose, names: (uris ?? ["spiffe://\(name)\(path)"]).map { .uri($0) } + names)
    builder.notAfter = Int64(time(nil)) + seconds
    return try builder.signed(by: authority ?? root, key: .generate())
  }
}

/// Makes a message X509SVIDResponse of the Workload API, by hand: protobuf's encoding needs no library.
package struct WorkloadMessage: Sendable {
  package var bytes: [UInt8] = []

  package init() {}

  /// The usual message: an SVID with the bundle of its trust domain, and federated bundles.
  package init(_ svid: CertifiedKey, _ id: String, of domain: TestTrustDomain, federated: [TestTrustDomain] = []) {
    add(svid, id, bundle: [domain.root.certificate])
    for other in federated { add(federated: "spiffe://\(other.name)", [other.root.certificate]) }
  }

  package mutating func add(
    _ svid: CertifiedKey, _ id: String, bundle: [Certificate], chain: [Certificate]? = nil, key: PrivateKey? = nil
  ) {
    let certificates = [svid.certificate] + (chain ?? svid.chain)
    add(
      1,
      Self.field(1, Array(id.utf8)) + Self.field(2, certificates.flatMap(\.der))
        + Self.field(3, Self.pkcs8(key ?? svid.key)) + Self.field(4, bundle.flatMap(\.der)))
  }

  package mutating func add(federated key: String, _ bundle: [Certificate]) {
    add(3, Self.field(1, Array(key.utf8)) + Self.field(2, bundle.flatMap(\.der)))
  }

  package mutating func add(_ number: Int, _ value: [UInt8]) { bytes += Self.field(number, value) }

  package static func field(_ number: Int, _ value: [UInt8]) -> [UInt8] {
    varint(number << 3 | 2) + varint(value.count) + value
  }

  package static func varint(_ number: Int) -> [UInt8] {
    var rest = number, bytes: [UInt8] = []
    while rest >= 0x80 {
      bytes.append(UInt8(rest & 0x7F) | 0x80)
      rest >>= 7
    }
    return bytes + [UInt8(rest)]
  }

  private static func pkcs8(_ key: PrivateKey) -> [UInt8] {
    guard let pem = try? key.pem else { return [] }
    let text = pem.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    let lines = text.split(separator: "\n").filter { !$0.hasPrefix("-----") }
    return (try? Base64.decode(lines.joined())) ?? []
  }
}

/// A running test agent.
package final class WorkloadAgent: Sendable {
  package let socket: String
  private let scene: Scene
  private let process: ChildProcess
  private let output: String

  /// Starts it under this socket; what it sends is in a file of the scene until the next `send`.
  package static func start(_ scene: Scene, name: String = "agent") async throws -> WorkloadAgent {
    let agent = try WorkloadAgent(scene, name: name)
    try await until("the agent") {
      if let ending = agent.process.ending {
        throw ToolFailed(description: "agent: \(ending) \(scene.text("\(agent.output).err"))")
      }
      return scene.text("\(agent.output).out").contains("up\n")
    }
    return agent
  }

  private init(_ scene: Scene, name: String) throws {
    self.scene = scene
    socket = scene.path("\(name).sock")
    unlink(socket)
    output = "\(name)-\(UInt32.random(in: 0...UInt32.max))"
    if scene.bytes("\(name).say").isEmpty { try scene.write("\(name).say", text: "S") }
    process = try ChildProcess(
      GRPCScripts.python, [scene.write("agent.py", text: WorkloadScripts.agent), socket, scene.path("\(name).say")],
      in: scene.folder, output: scene.path("\(output).out"), errors: scene.path("\(output).err"))
    let (process, output) = (process, output)
    scene.atEnd { process.stop() }
    scene.onFailure(show: "agent") { scene.text("\(output).out") + scene.text("\(output).err") }
  }

  package func stop() { process.stop() }

  /// The calls that it has got.
  package var calls: Int { scene.text("\(output).out").split(separator: "\n").filter { $0 == "call" }.count }

  package static func say(_ scene: Scene, _ bytes: [UInt8], name: String = "agent") throws {
    try scene.write("\(name).new", bytes)
    guard rename(scene.path("\(name).new"), scene.path("\(name).say")) == 0 else {
      throw ToolFailed(description: "rename: \(errno)")
    }
  }

  package func send(_ message: WorkloadMessage) throws { try Self.say(scene, [UInt8(ascii: "M")] + message.bytes) }
  package func end(with status: String) throws { try Self.say(scene, Array("E\(status)".utf8)) }
}
