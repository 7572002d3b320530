/// A gRPC server and client of the grpcio library: programs in Python, without generated code.
package enum GRPCScripts {
  /// Debian's own, for which Debian has grpcio.
  package static let python = "/usr/bin/python3"

  /// FOLDER: mutual TLS, with server.pem and ca.pem of the folder. Prints `up PORT`, a line for each call that hangs, and one
  /// when it was cancelled.
  package static let server = #"""
    import grpc, sys, threading
    from concurrent import futures
    folder = sys.argv[1]
    read = lambda name: open(folder + "/" + name, "rb").read()
    same = lambda value: value

    def unary(request, context):
        metadata = dict(context.invocation_metadata())
        if request == b"metadata":
            context.send_initial_metadata((("x-first", "f"), ("first-bin", b"\xff\x00")))
            context.set_trailing_metadata((("x-last", "l"), ("last-bin", b"\x00\x01")))
            return repr(sorted((k, v) for k, v in metadata.items() if k.startswith("x-"))).encode()
        if request == b"fail": context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: \u00e4")
        if request == b"timeout": return b"%s" % str(900 < context.time_remaining() < 1100).encode()
        if request == b"hang":
            gone = threading.Event()
            context.add_callback(gone.set)
            print("hanging", flush=True)
            gone.wait(60)
            print("cancelled" if not context.is_active() else "left", flush=True)
        return request

    def down(request, context):
        for index in range(int(request)): yield b"%d" % index

    def up(requests, context): return b"%d" % sum(len(request) for request in requests)

    def both(requests, context):
        for request in requests: yield request

    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary, same, same),
        "Down": grpc.unary_stream_rpc_method_handler(down, same, same),
        "Up": grpc.stream_unary_rpc_method_handler(up, same, same),
        "Both": grpc.stream_stream_rpc_method_handler(both, same, same)}
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[
        ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
    tls = grpc.ssl_server_credentials([(read("server.key"), read("server.pem"))], read("ca.pem"), True)
    port = server.add_secure_port("127.0.0.1:0", tls)
    server.start()
    print("up", port, flush=True)
    server.wait_for_termination()
    """#

  /// PORT FOLDER WHAT: makes calls over mutual TLS and prints what they gave.
  package static let client = #"""
    import grpc, queue, sys
    port, folder, what = sys.argv[1:4]
    read = lambda name: open(folder + "/" + name, "rb").read()
    same = lambda value: value
    channel = grpc.secure_channel("localhost:" + port,
        grpc.ssl_channel_credentials(read("ca.pem"), read("alice.key"), read("alice.pem")),
        options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                 ("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)])
    unary = lambda name="test.Test/Unary": channel.unary_unary("/" + name, same, same)
    down = channel.unary_stream("/test.Test/Down", same, same)
    up = channel.stream_unary("/test.Test/Up", same, same)
    both = channel.stream_stream("/test.Test/Both", same, same)

    def failing(call):
        try: print("no error", call())
        except grpc.RpcError as error: print(error.code().name, error.details())

    if what == "calls":
        print(unary()(b"hello", timeout=20).decode(), unary()(b"", timeout=20) == b"")
        print(list(down(b"500", timeout=20)) == [b"%d" % i for i in range(500)], list(down(b"0", timeout=20)))
        print(up(iter([b"x" * 1000] * 500), timeout=20).decode(), up(iter([]), timeout=20).decode())
        messages = queue.Queue()
        answers = both(iter(messages.get, None), timeout=20)
        for index in range(50):
            messages.put(b"%d" % index)
            assert next(answers) == b"%d" % index
        messages.put(None)
        print(list(answers))
        text, call = unary().with_call(b"metadata", metadata=(("x-a", "1"), ("x-b-bin", b"\xff\x00")), timeout=20)
        print(text.decode())
        print([v for k, v in call.initial_metadata() if k in ("x-first", "first-bin")],
              [v for k, v in call.trailing_metadata() if k in ("x-last", "last-bin")])
        print(unary()(b"timeout", timeout=1000).decode())
    if what == "large":
        large = bytes(range(256)) * (4 << 12)
        print(unary()(large, timeout=60) == large, list(both(iter([large] * 3), timeout=60)) == [large] * 3)
    if what == "many":
        calls = [unary().future(b"%d" % i, timeout=60) for i in range(1000)]
        print([call.result() for call in calls] == [b"%d" % i for i in range(1000)])
    if what == "errors":
        failing(lambda: unary()(b"fail", timeout=20))
        failing(lambda: unary("test.Test/None")(b"", timeout=20))
        failing(lambda: unary("test.Dead/Call")(b"", timeout=20))
        failing(lambda: unary("test.Denied/Call")(b"", timeout=20))
        failing(lambda: unary("test.Large/Call")(b"x" * 10000, timeout=20))
        failing(lambda: unary("test.Untrusted/Call")(b"", timeout=20))
    if what == "ends":
        failing(lambda: unary()(b"hang", timeout=0.5))
        call = down(b"100000000", timeout=20)
        next(call)
        call.cancel()
        failing(lambda: list(call))
        print(unary()(b"alive", timeout=20).decode())
    """#
}

extension Scene {
  /// Starts the gRPC server, and returns its port.
  package func grpcServer() async throws -> UInt16 {
    let process = try ChildProcess(
      GRPCScripts.python, [write("grpc-server.py", text: GRPCScripts.server), folder], in: folder,
      output: path("grpc-server.out"), errors: path("grpc-server.err"))
    atEnd { process.stop() }
    onFailure(show: "gRPC server") { self.text("grpc-server.out") + self.text("grpc-server.err") }
    return try await waiting(for: "the gRPC server") {
      if let ending = process.ending { throw ToolFailed(description: "gRPC server: \(ending)") }
      return text("grpc-server.out").firstMatch(of: /up (\d+)\n/).flatMap { UInt16($0.output.1) }
    }
  }

  /// Makes the calls that the word names, and returns the lines that they gave.
  package func grpcClient(_ port: UInt16, _ what: String) async throws -> [String] {
    let result = try await run(
      GRPCScripts.python, [write("grpc-client.py", text: GRPCScripts.client), "\(port)", folder, what])
    guard result.status == 0 else { throw ToolFailed(description: "gRPC client: \(result.everything)") }
    return result.text.split(separator: "\n").map(String.init)
  }
}
