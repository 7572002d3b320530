import Synchronization

/// An upstream that speaks HTTP/2 over plain TCP as its script says, frame by frame: one thread a connection.
///
/// Keeps what it was sent, over all connections.
package final class UpstreamFrameServer: Sendable {
  /// What to do with a connection, whose preface has not been read. It is closed when the script returns or throws.
  package typealias Script = @Sendable (_ connection: UpstreamFrameConnection) throws -> Void

  private final class Notes: Sendable {
    let requests = Mutex<[UpstreamFrameRequest]>([])
    let resets = Mutex<[(stream: Int, code: UInt32)]>([])
    let failures = Mutex<[String]>([])

    func take(_ event: UpstreamFrameConnection.Event) {
      switch event {
      case .request(let request): requests.withLock { $0.append(request) }
      case .reset(let stream, let code): resets.withLock { $0.append((stream, code)) }
      default: break
      }
    }
  }

  private let server: ScriptedUpstream
  private let notes: Notes

  package init(_ scene: Scene, script: @escaping Script) throws {
    let notes = Notes()
    self.notes = notes
    server = try ScriptedUpstream(scene, records: false) { wire, number in
      do {
        try script(UpstreamFrameConnection(wire, number) { notes.take($0) })
      } catch is UpstreamFrameConnection.HangUp {
      } catch {
        notes.failures.withLock { $0.append("connection \(number): \(error)") }
      }
    }
    scene.onFailure(show: "HTTP/2 upstream \(server.port)") {
      notes.requests.withLock { $0.map { "\($0.connection)/\($0.stream) \($0.method) \($0.path)\n" }.joined() }
        + notes.failures.withLock { $0.joined(separator: "\n") }
    }
  }

  /// Answers each whole request.
  package static func serving(
    _ scene: Scene, _ settings: [(id: UInt16, value: UInt32)] = [],
    _ answer: @escaping @Sendable (UpstreamFrameConnection, UpstreamFrameRequest) throws -> Void
  ) throws -> UpstreamFrameServer {
    try UpstreamFrameServer(scene) { connection in
      try connection.open(settings)
      try connection.serve { try answer(connection, $0) }
    }
  }

  package var port: UInt16 { server.port }
  package var connections: Int { server.connections }
  /// The requests that came whole, in order.
  package var requests: [UpstreamFrameRequest] { notes.requests.withLock { $0 } }
  package var paths: [String] { requests.map(\.path) }
  package var resets: [(stream: Int, code: UInt32)] { notes.resets.withLock { $0 } }
}
