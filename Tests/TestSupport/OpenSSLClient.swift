import Glibc

/// `openssl s_client` as a TLS wire: bytes written here leave encrypted, what comes back is read here.
package struct OpenSSLClient: Sendable {
  package let wire: Wire
  package let process: ChildProcess
  private let scene: Scene
  private let name: String

  /// What it says on stderr.
  package var log: String { scene.text(name) }

  /// `name`: the name of SNI; without one, the handshake has none.
  package init(
    _ scene: Scene, port: UInt16, name: String = "localhost", identity: IdentityFiles? = nil, _ arguments: [String] = []
  ) throws {
    let (ours, theirs) = try SocketPair.make()
    defer { close(theirs) }
    wire = Wire(owning: ours)
    self.scene = scene
    self.name = "s_client-\(UInt32.random(in: 0...UInt32.max)).err"
    process = try ChildProcess(
      "openssl",
      ["s_client", "-quiet", "-connect", "127.0.0.1:\(port)"]
        + (name.isEmpty ? ["-noservername"] : ["-servername", name]) + (identity?.openssl ?? []) + arguments,
      in: scene.folder, input: .descriptor(theirs), output: nil, errors: scene.path(self.name))
    let (process, wire) = (process, wire)
    scene.atEnd {
      process.stop()
      wire.close()
    }
  }
}

extension Scene {
  /// A conversation over TLS, on a thread of its own.
  package func talk<R: Sendable>(
    tls port: UInt16, name: String = "localhost", identity: IdentityFiles? = nil, _ arguments: [String] = [],
    _ body: @escaping @Sendable (Wire) throws -> R
  ) async throws -> R {
    let client = try OpenSSLClient(self, port: port, name: name, identity: identity, arguments)
    return try await offPool {
      defer { client.wire.close() }
      return try body(client.wire)
    }
  }

  /// A plain listener's response by HTTP/1.1: for what is asked again and again until it is so, since a curl for each question
  /// takes longer than all else of a test.
  package func page(_ port: UInt16, _ path: String) async throws -> HTTPMessage {
    try await talk(port) { wire in
      try wire.write("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      return try wire.response()
    }
  }

  /// A conversation over plain TCP, on a thread of its own.
  package func talk<R: Sendable>(_ port: UInt16, _ body: @escaping @Sendable (Wire) throws -> R) async throws -> R {
    try await offPool {
      let wire = try Wire.dial(port: port)
      defer { wire.close() }
      return try body(wire)
    }
  }
}
