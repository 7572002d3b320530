import Bytes
import Configuration
import Daemon
import Glibc
import HTTP
import Observability
import Patterns
@testable import Proxy
import TestSupport
import Testing
import Transport
import Upstream

/// A worker that serves a configuration on a loop that does not turn: everything happens within the test's own calls.
final class Rig {
  let loop: EventLoop
  let worker: Worker
  let live: LiveGeneration

  /// `http`: the contents of the http block, without files. Listens nowhere, whatever it says.
  init(_ http: String, accessLog: String = "off") throws {
    let text = "events {} http { access_log \(accessLog); \(http) }"
    let (settings, diagnostics) = Configuration.load(text: text, fileName: "/etc/test.conf")
    let errors = diagnostics.filter { $0.severity == .error }.map(\.description)
    let loaded = try #require(settings, "\(errors)").http
    let groups = loaded.groups.map { group in
      ResolvedGroup(
        settings: group,
        servers: group.servers.map { server in
          // Nobody is ever dialled.
          .init(address: .ipv4(address: 0x7F00_0001, port: 9), settings: server)
        })
    }
    let generation = Generation(
      number: 1, http: loaded, serverContexts: loaded.servers.map { _ in nil }, upstreamContexts: [:], groups: groups,
      errorLog: ErrorLog([]), errorLogs: [:], accessLogs: OpenLogs([], loaded, in: LogFiles()).accessLogs,
      guessLimits: GuessLimits.resolved(loaded))
    loop = try EventLoop(index: 0)
    worker = Worker(loop: loop, connections: 16, metrics: Metrics(), shared: SharedState())
    worker.serve(generation, sockets: []) { error in Issue.record("\(error)") }
    live = try #require(worker.live)
  }

  /// A client's connection and the descriptor of its far end, which the caller closes.
  func connect(listener: Int = 0) throws -> (connection: ClientConnection, peer: Int32) {
    var both: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, type, 0, &both) == 0 else { throw SocketError("socketpair", errno) }
    let stream = try ByteStream(loop: loop, descriptor: both[0], isConnecting: false)
    let connection = ClientConnection(
      worker: worker, live: live, servers: live.listeners[listener], stream: stream,
      peer: .ipv4(address: 0xC000_0201, port: 4711), number: 7)
    return (connection, both[1])
  }

  /// What a client is answered that sends this and ends: for what needs no upstream.
  func answer(_ request: String) throws -> String {
    let (connection, peer) = try connect()
    defer { close(peer) }
    connection.begin()
    let bytes = Array(request.utf8)
    #expect(send(peer, bytes, bytes.count, 0) == bytes.count)
    shutdown(peer, Int32(SHUT_WR))
    connection.stream.ready([.input, .peerEnd])
    loop.cork.flush()
    var answer = [UInt8](repeating: 0, count: 65_536)
    let count = recv(peer, &answer, answer.count, 0)
    connection.close()
    return String(decoding: answer.prefix(max(0, count)), as: UTF8.self)
  }

  /// An exchange whose head was read, and which has found its server and location, but done nothing yet.
  func exchange(_ lines: String...) throws -> Exchange {
    let (connection, peer) = try connect()
    close(peer)
    let exchange = worker.takeExchange()
    let head = lines.map { $0 + "\r\n" }.joined() + "\r\n"
    var parser = HeadParser()
    let outcome = head.utf8.withContiguousStorageIfAvailable {
      parser.request(UnsafeRawBufferPointer($0), limits: connection.firstServer.headLimits, into: exchange.head)
    }
    guard case .complete = outcome else { throw NoHead() }
    exchange.connection = connection
    exchange.server = try #require(connection.server(for: exchange))
    let path = exchange.head.bytes.readable[exchange.head.target.path]
    #expect(TargetPath.normalize(path: path, mergeSlashes: true, into: &exchange.uri))
    var captures = Captures()
    switch exchange.server.locations.find(
      exchange.uri.readable, captures: &captures, scratch: worker.patternScratch)
    {
    case .location(let found), .redirect(let found): exchange.location = found
    case .pattern(let found, _, let slots):
      exchange.location = found
      exchange.take(captures, of: Array(exchange.uri.readable), slots: slots)
    case .none, .undecided: exchange.location = exchange.server.root
    }
    if case .proxy(let pass) = exchange.location.action { exchange.pass = pass }
    return exchange
  }

  struct NoHead: Error {}

  /// The head that an upstream would be sent.
  func forwarded(_ lines: String...) throws -> [String] {
    try upstreamHead(of: exchange(lines.joined(separator: "\r\n"))).replacing("\r\n\r\n", with: "")
      .split(separator: "\r\n").map(String.init)
  }

  /// The head that an upstream would be sent for this exchange.
  func upstreamHead(of exchange: Exchange) throws -> String {
    let pass = try #require(exchange.pass)
    #expect(RequestRewrite.build(exchange.outgoing, of: exchange, pass))
    var output = ByteBuffer()
    HTTP1Encoder.request(exchange.outgoing, pass.settings.speaksHTTP11 ? .http11 : .http10, to: &output)
    return String(decoding: output.readable, as: UTF8.self)
  }
}
