import Crypto
import Foundation

/// A collector of OpenTelemetry in Python, with the messages of the package opentelemetry-proto.
package final class SpanCollector: Sendable {
  package struct Span: Decodable, Sendable {
    package let resource: [String: String]
    package let trace: String
    package let id: String
    /// Empty: none.
    package let parent: String
    package let name: String
    package let kind: String
    /// Nanoseconds.
    package let start: UInt64
    package let end: UInt64
    package let status: String
    package let attributes: [String: String]
  }

  package let port: UInt16
  private let scene: Scene

  /// `identity`: the collector speaks TLS with it. The file `collector.say` of the scene has the status to answer with.
  package init(_ scene: Scene, port wanted: UInt16 = 0, identity: IdentityFiles? = nil) async throws {
    self.scene = scene
    let script = try scene.write("collector.py", text: Self.source)
    let name = "collector-\(UInt32.random(in: 0...UInt32.max))"
    let process = try ChildProcess(
      PythonPackages.python, [script, "\(wanted)"] + (identity.map { [$0.certificate, $0.key] } ?? []),
      in: scene.folder,
      output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "the collector") { scene.text("\(name).out") + scene.text("\(name).err") }
    port = try await waiting(for: "the collector to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "the collector: \(ending) \(scene.text("\(name).err"))")
      }
      return scene.text("\(name).out").split(separator: "\n").first.flatMap { UInt16($0) }
    }
    self.process = process
  }

  private let process: ChildProcess

  package func stop() { process.stop() }

  /// The status of the next answers, and a line of their heads.
  package func say(_ status: Int, _ field: String = "") throws {
    try scene.write("collector.new", text: "\(status)|\(field)")
    rename(scene.path("collector.new"), scene.path("collector.say"))
  }

  /// All spans that were taken so far.
  package var spans: [Span] {
    scene.text("spans.json").split(separator: "\n").compactMap {
      try? JSONDecoder().decode(Span.self, from: Data($0.utf8))
    }
  }

  /// The statuses that were answered so far.
  package var answers: [String] { scene.text("answers").split(separator: "\n").map(String.init) }

  private static let source = #"""
    import http.server, json, os, ssl, sys
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    def values(attributes):
        return {one.key: str(getattr(one.value, one.value.WhichOneof("value"))) for one in attributes}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words): pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces", self.path
            assert self.headers["Content-Type"] == "application/x-protobuf"
            said = open("collector.say").read() if os.path.exists("collector.say") else "200|"
            status, field = said.split("|", 1)
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            lines = []
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    assert scope.scope.name == "sallyport"
                    for span in scope.spans:
                        lines.append(json.dumps({
                            "resource": values(resource.resource.attributes), "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "name": span.name,
                            "kind": Span.SpanKind.Name(span.kind), "start": span.start_time_unix_nano,
                            "end": span.end_time_unix_nano, "status": Status.StatusCode.Name(span.status.code),
                            "attributes": values(span.attributes)}))
            if status == "200":
                with open("spans.json", "a") as file: file.write("".join(line + "\n" for line in lines))
            with open("answers", "a") as file: file.write(status + " " + self.headers.get("X-Token", "") + "\n")
            self.send_response(int(status))
            if field: self.send_header(*field.split(": ", 1))
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()
    """#
}
