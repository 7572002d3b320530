import Crypto
import Glibc
import Observability
import Synchronization
@testable import TLS
import TestSupport
import Transport

/// One loop for the suite; the connections of many tests turn on it at once.
private let madeLoop = Result { () throws(SocketError) -> EventLoop in
  let loop = try EventLoop(index: 0)
  loop.start { _ in }
  return loop
}

/// The server blocks of one listener, by SNI.
// @unchecked: nothing is changed once it is made.
final class Blocks: ServerChooser, @unchecked Sendable {
  private let first: ServerTLSContext
  private let named: [String: ServerTLSContext]

  init(_ first: ServerTLSContext, named: [String: ServerTLSContext] = [:]) {
    self.first = first
    self.named = named
    super.init()
  }

  /// What the rules of every block come to; changed between meetings only.
  let rules = Mutex<String?>(nil)
  override func denial(of client: VerifiedClient?, by context: ServerTLSContext) -> String? { rules.withLock { $0 } }

  override var initial: ServerTLSContext? { first }
  override func choose(_ name: [UInt8]) -> ServerTLSContext? { named[String(decoding: name, as: UTF8.self)] ?? first }
}

/// What came of a client and a server that shook hands over a pair of sockets.
struct Meeting: Sendable {
  var verdict: ClientVerdict = .absent
  /// That of a client that was refused for its purpose alone.
  var purposeless: VerifiedChain?
  var serverName = ""
  var protocolName = ""
  /// What ALPN selected.
  var applicationProtocol = ""
  var isResumed = false
  /// Whether the server block that the open connection moved to lets the client in.
  var isMoved = false
  /// When the server judges the client again, and the client the server.
  var clientEnd = Int64.max, serverEnd = Int64.max
  /// The certificates that OpenSSL holds for the connection, the leaf first.
  var held: [Certificate] = []
  /// The certificates of a client that the handshake refused.
  var refused: [Certificate] = []
  /// How the client judged the server.
  var trust: TrustResult?
  /// nil: it opened.
  var serverFailure: String?
  var clientFailure: String?
}

/// `reads`: the client reads on after its handshake, and so takes a ticket that is sent to it. `moving`: the server blocks
/// that a reload puts in the place of the first when the connection is open.
func meet(
  _ blocks: Blocks, _ upstream: UpstreamTLSContext, name: String = "up.test", reads: Bool = true,
  moving next: Blocks? = nil
) async throws -> Meeting {
  let loop = try madeLoop.get()
  return try await withCheckedThrowingContinuation { continuation in
    loop.post {
      do {
        try Pair(loop, blocks, upstream, name, reads, next) { continuation.resume(returning: $0) }.begin()
      } catch {
        continuation.resume(throwing: error)
      }
    }
  }
}

/// Both streams of a meeting; over when each side has opened or failed, and the client has read the server's greeting.
private final class Pair {
  private let server: TLSStream
  private let client: TLSStream
  private let reads: Bool
  private let next: Blocks?
  private let done: (Meeting) -> Void
  private var meeting = Meeting()
  private var serverIsOver = false
  private var clientIsOver = false
  private var isDone = false

  init(
    _ loop: EventLoop, _ blocks: Blocks, _ upstream: UpstreamTLSContext, _ name: String, _ reads: Bool,
    _ next: Blocks?, done: @escaping (Meeting) -> Void
  ) throws {
    var both: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
    server = try TLSStream(accepting: both[0], loop: loop, chooser: blocks)
    client = try TLSStream(connecting: both[1], loop: loop, context: upstream, name: name, address: "pair")
    self.reads = reads
    self.next = next
    self.done = done
  }

  func begin() {
    server.owner = Side(self, isServer: true)
    client.owner = Side(self, isServer: false)
    server.begin()
  }

  fileprivate func opened(_ isServer: Bool) {
    if isServer {
      if let next { meeting.isMoved = server.move(to: next) }
      meeting.verdict = server.clientVerdict
      meeting.purposeless = server.purposelessChain
      meeting.serverName = String(decoding: server.serverName, as: UTF8.self)
      meeting.protocolName = server.protocolName
      meeting.applicationProtocol = server.applicationProtocol
      meeting.isResumed = server.isResumed
      meeting.clientEnd = server.judgementEnd
      meeting.held = server.ssl.map { TLSStream.sent(by: $0) } ?? []
      Array("hello".utf8).withUnsafeBytes { server.write($0) }
      serverIsOver = true
    } else if !reads {
      clientIsOver = true
    }
    conclude()
  }

  fileprivate func failed(_ isServer: Bool, _ failure: StreamFailure) {
    if isServer {
      meeting.serverFailure = "\(failure)"
      meeting.refused = server.refusedChain
      meeting.purposeless = server.purposelessChain
      serverIsOver = true
      // Its alert goes out before it leaves.
      server.loop.cork.flush()
      server.close()
    } else {
      meeting.clientFailure = "\(failure)"
      clientIsOver = true
      client.loop.cork.flush()
      client.close()
    }
    conclude()
  }

  fileprivate func readable(_ isServer: Bool) {
    guard !isServer, reads, !clientIsOver else { return }
    var bytes = [UInt8](repeating: 0, count: 100)
    switch bytes.withUnsafeMutableBytes({ client.read(into: $0) }) {
    case .bytes: clientIsOver = true
    case .wouldBlock: return
    case .end, .failed: return failed(false, client.failure ?? .truncated)
    }
    conclude()
  }

  private func conclude() {
    guard serverIsOver, clientIsOver, !isDone else { return }
    isDone = true
    meeting.trust = client.trustResult
    meeting.serverEnd = client.judgementEnd
    client.close()
    server.close()
    done(meeting)
  }
}

private final class Side: StreamOwner {
  private let pair: Pair
  private let isServer: Bool
  init(_ pair: Pair, isServer: Bool) {
    self.pair = pair
    self.isServer = isServer
  }
  override func streamDidOpen() { pair.opened(isServer) }
  override func streamIsReadable() { pair.readable(isServer) }
  override func streamDidFail(_ failure: StreamFailure) { pair.failed(isServer, failure) }
}
