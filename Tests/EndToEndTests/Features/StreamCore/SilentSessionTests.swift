import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.stagedAlone) struct `Sessions of stream with silent clients` {
  /// Connections of each kind: SALLYPORT_SILENT, or few enough for a limit of 1024 open files.
  private static let count = ProcessInfo.processInfo.environment["SALLYPORT_SILENT"].flatMap { Int($0) } ?? 100

  /// With SALLYPORT_SILENT=2000, ten thousand.
  @Test func `others are served beside many that say nothing at every step`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream.mirror(scene)
    // The system takes connections for it, and nobody reads.
    let quiet = try QuietListener(scene)
    let ports = try (0..<5).map { _ in try scene.port() }
    let (served, plain) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Cast.tls)
        proxy_connect_timeout 10m; ssl_handshake_timeout 10m; proxy_protocol_timeout 10m; preread_timeout 10m;
        server { listen 127.0.0.1:\(ports[0]) ssl backlog=4096; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(ports[1]) ssl backlog=4096; starttls postgres; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(ports[2]) backlog=4096; ssl_preread on; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(ports[3]) proxy_protocol backlog=4096; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(ports[4]) backlog=4096; proxy_pass 127.0.0.1:\(quiet.port); }
        server { listen 127.0.0.1:\(served) ssl; proxy_pass 127.0.0.1:\(upstream.port); }
        server { listen 127.0.0.1:\(plain); proxy_pass 127.0.0.1:\(upstream.port); }
        """, connections: 12 * Self.count))
    let script = try scene.write("silent.py", text: Self.script)
    let silent = try ChildProcess(
      "python3", [script, "\(Self.count)"] + ports.map(String.init), in: scene.folder, output: scene.path("silent.out"),
      errors: scene.path("silent.err"))
    scene.atEnd { silent.stop() }
    try await until("the silent clients", within: .seconds(120)) { scene.text("silent.out").contains("open") }
    for _ in 0..<5 {
      #expect(try await scene.tlsClient(served, TLSSteps("tls", "send=hello", "read=5")) == "hello")
      #expect(try await scene.talk(plain) { try $0.echoes() })
    }
    #expect(scene.text("silent.err").isEmpty)
    #expect(!daemon.errorLog.contains("[alert]") && !daemon.errorLog.contains("[error]"))
    silent.stop()
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended(within: .seconds(60)) == .exited(0))
  }

  private static let script = """
    import resource, socket, sys, time
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = [socket.create_connection(("127.0.0.1", int(port)), 60)
            for _ in range(int(sys.argv[1])) for port in sys.argv[2:]]
    print("open", len(held), flush=True)
    time.sleep(600)
    """
}
