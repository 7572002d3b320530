import TestSupport
import Testing

/// Which configurations `sallyport check` takes, beside `nginx -t`.
@Suite(.staged) struct `Configurations that nginx takes or refuses` {
  private static let server = "server { listen 127.0.0.1:PORT; location / { return 204; } }"

  @Test(arguments: [
    // A port, which gRPC has no default for.
    "server { listen 127.0.0.1:PORT; location / { grpc_pass grpc://localhost; } }",
    "server { listen 127.0.0.1:PORT; location / { grpc_pass localhost; } }",
    "server { listen 127.0.0.1:PORT; location / { grpc_pass grpc://localhost:50; } }",
    "server { listen 127.0.0.1:PORT; location / { grpc_pass 127.0.0.1:50; } }",
    "server { listen 127.0.0.1:PORT; location / { grpc_pass unix:/tmp/x; } }",
    "server { listen 127.0.0.1:PORT; location / { set $a b; grpc_pass grpc://$a; } }",
    "upstream a { server 127.0.0.1; } server { listen 127.0.0.1:PORT; location / { grpc_pass a; } }",
    // Compressed logs.
    "access_log a.log combined gzip; \(server)", "access_log a.log combined gzip=9 buffer=8k flush=1m; \(server)",
    "access_log a.log combined gzip=0; \(server)", "access_log a.log combined gzip=10; \(server)",
    "access_log a-$host.log combined gzip; \(server)",
    "access_log a.log combined gzip; access_log a.log combined gzip=2; \(server)",
    // Names to listen on.
    "server { listen localhost:PORT; return 204; }", "server { listen nosuch.invalid:PORT; return 204; }",
    "server { listen localhost:PORT; listen 127.0.0.1:PORT; return 204; }",
    // Files without a root.
    "server { listen 127.0.0.1:PORT; location / { try_files $uri =404; } }",
    // Folders.
    "client_body_temp_path bodies; \(server)", "client_body_temp_path absent/bodies; \(server)",
  ])
  func `get the same verdict`(http: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let text = http.replacing("PORT", with: "\(port)")
    var kinds = ["proxy", "fastcgi", "uwsgi", "scgi"]
    if !text.contains("client_body_temp_path") { kinds.append("client_body") }
    let paths = kinds.map { "\($0)_temp_path \(scene.path($0));" }.joined(separator: " ")
    try scene.write("twin.conf", text: "pid twin.pid; events {} http { \(paths) \(text) }")
    let nginx = try await scene.run(
      "nginx", ["-t", "-p", scene.folder, "-e", "stderr", "-c", scene.path("twin.conf")])
    let ours = try await scene.sallyport("check", "--config", scene.write("ours.conf", text: configuration(text)))
    #expect((nginx.status == 0) == (ours.status == 0), "\(nginx.everything) \(ours.everything)")
  }
}
