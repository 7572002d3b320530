import Glibc
import TestSupport
import Testing

/// A configuration around the contents of its stream block. Logs: error.log from info on, and access.log with `StreamLine`.
func streamConfiguration(
  _ stream: String, main: String = "", http: String = "", level: String = "info", workers: Int = 2,
  connections: Int = 256
) -> String {
  """
  worker_processes \(workers);
  error_log error.log \(level);
  pid sallyport.pid;
  \(main)
  events { worker_connections \(connections); }
  \(http.isEmpty ? "" : "http { access_log off; \(http) }")
  stream {
    log_format line \(StreamLine.format);
    access_log access.log line;
    \(stream)
  }
  """
}

/// A line of the access log of `stream`.
struct StreamLine: Sendable {
  private static let names = [
    "server_port", "status", "bytes_received", "bytes_sent", "upstream_addr", "ssl_client_verify", "limit_conn_status",
  ]
  static let format = "'" + names.map { "$\($0)" }.joined(separator: "|") + "'"
  private let values: [Substring]

  subscript(name: String) -> String { Self.names.firstIndex(of: name).map { String(values[$0]) } ?? "" }
  var status: String { self["status"] }

  static func all(_ scene: Scene, _ port: UInt16) -> [StreamLine] {
    let start = "\(port)|"
    return scene.text("access.log").split(separator: "\n").filter { $0.hasPrefix(start) }
      .map { StreamLine(values: $0.split(separator: "|", omittingEmptySubsequences: false)) }
      .filter { $0.values.count == names.count }
  }
}

/// A daemon with one server of `stream` in front of an upstream.
struct StreamFront: Sendable {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport

  /// `listen`: words behind the address. `server`: lines of the server block. `upstream` is an address as proxy_pass takes
  /// it; without it, `server` says what becomes of connections.
  init(
    _ scene: Scene, to upstream: String? = nil, listen: String = "", server: String = "", stream: String = "",
    main: String = "", workers: Int = 2
  ) async throws {
    self.scene = scene
    port = try scene.port()
    daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(stream)
        server { listen 127.0.0.1:\(port) \(listen); \(server) \(upstream.map { "proxy_pass \($0);" } ?? "") }
        """, main: main, workers: workers))
  }

  init(
    _ scene: Scene, to upstream: ScriptedUpstream, listen: String = "", server: String = "", stream: String = "",
    main: String = "", workers: Int = 2
  ) async throws {
    try await self.init(
      scene, to: "127.0.0.1:\(upstream.port)", listen: listen, server: server, stream: stream, main: main,
      workers: workers)
  }

  func talk<R: Sendable>(_ body: @escaping @Sendable (Wire) throws -> R) async throws -> R {
    try await scene.talk(port, body)
  }

  /// Waits for the line of a session in the access log.
  func line(_ number: Int = 0) async throws -> StreamLine {
    try await waiting(for: "line \(number) of port \(port) in access.log") {
      StreamLine.all(scene, port).dropFirst(number).first
    }
  }

  /// Shows that the daemon has lost no session: it ends as soon as all are over.
  func endsWithoutSessions(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0), sourceLocation: sourceLocation)
  }
}

extension ScriptedUpstream {
  /// Sends back what comes, until the client ends.
  static func mirror(_ scene: Scene, records: Bool = true, unixPath: String? = nil) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene, records: records, unixPath: unixPath) { wire, _ in try wire.mirror() }
  }

  /// Says who it is, and then sends back what comes.
  static func named(_ scene: Scene, _ name: String) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.write("\(name)\n")
      try wire.mirror()
    }
  }
}

extension Wire {
  func mirror() throws {
    while true {
      let bytes = try readSome()
      if bytes.isEmpty { return }
      try write(bytes)
    }
  }

  /// Sends this, and compares what comes back.
  func echoes(_ text: String = "hello") throws -> Bool {
    try write(text)
    return try read(exactly: text.utf8.count) == Array(text.utf8)
  }

  /// What comes until the end, as text.
  func textToEnd() throws -> String { String(decoding: try readToEnd(), as: UTF8.self) }

  /// A line without its end.
  func line() throws -> String {
    String(decoding: (try read(through: "\n") ?? []).filter { $0 != 10 && $0 != 13 }, as: UTF8.self)
  }
}
