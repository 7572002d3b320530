import FuzzSupport
import Negotiation

/// The first byte chooses what is fuzzed, a protocol, and the size of pieces; the rest is what a client or server sends.
///
/// Holds of a negotiation: it consumes no more than there is, and nothing once it has ended; what it waits for is within
/// its bound; its reasons are printable; bytes that come at once and bytes that come in pieces lead to the same end,
/// unless they were an injection. Holds of a ClientHello: a beginning is incomplete or reads the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 0 else { return 0 }
  let bytes = UnsafeRawBufferPointer(start: start, count: count)
  let choice = Int(bytes[0] >> 2)
  let kinds = NegotiatedProtocol.allCases
  let kind = kinds[choice % kinds.count]
  let rest = Array(bytes.dropFirst())
  switch bytes[0] & 3 {
  case 0: client(kind, rest, size: choice / kinds.count + 1)
  case 1: upstream(kind, .tls, rest, size: choice / kinds.count + 1)
  case 2: upstream(kind, .greetingOnly, rest, size: choice / kinds.count + 1)
  default: hello(rest)
  }
  return 0
}

private func client(_ kind: NegotiatedProtocol, _ bytes: [UInt8], size: Int) {
  func run(_ size: Int) -> (said: [UInt8], next: ClientNegotiation.Next) {
    var machine = ClientNegotiation(kind, name: "a.example")
    let ran = feed(bytes, size, most: machine.most, waiting: .more) { machine.take($0) }
    switch ran.next {
    case .more: break
    case .beginTLS: require(!ran.said.isEmpty)
    case .beginTLSDirectly: require(kind == .postgres && ran.said.isEmpty)
    case .cancel(let request): require(kind == .postgres && (16...268).contains(request.count))
    case .end(let reason): require(isPrintable(reason))
    }
    // A greeting, and a reply of no more than a few hundred bytes to each message.
    require(ran.said.count < 16 * 1024)
    return ran
  }
  let whole = run(.max)
  if case .end(ClientNegotiation.injection) = whole.next { return require(whole.said.isEmpty) }
  for size in [1, size] {
    let pieces = run(size)
    require(pieces.said == whole.said && pieces.next == whole.next)
  }
}

private func upstream(_ kind: NegotiatedProtocol, _ goal: UpstreamNegotiation.Goal, _ bytes: [UInt8], size: Int) {
  func run(_ size: Int) -> (said: [UInt8], next: UpstreamNegotiation.Next, greeting: [UInt8]) {
    var machine = UpstreamNegotiation(kind, goal: goal)
    let ran = feed(bytes, size, most: UpstreamNegotiation.most, waiting: .more) { machine.take($0) }
    switch ran.next {
    case .more: break
    case .beginTLS: require(goal == .tls)
    case .done: require(goal == .greetingOnly && ran.said.isEmpty && bytes.starts(with: machine.greeting))
    case .end(let reason): require(isPrintable(reason))
    }
    require(machine.greeting.count <= UpstreamNegotiation.most && ran.said.count < 100)
    return (ran.said, ran.next, machine.greeting)
  }
  let whole = run(.max)
  switch whole.next {
  case .end(UpstreamNegotiation.injection), .end(UpstreamNegotiation.earlyAnswer):
    // One after the other, these bytes could be a server's: only for their own invariants.
    _ = (run(1), run(size))
  default:
    for size in [1, size] {
      let pieces = run(size)
      require(pieces.next == whole.next && pieces.greeting == whole.greeting)
      // A question is no longer sent when the same input ends the connection.
      if case .end = whole.next {
        require(pieces.said.starts(with: whole.said))
      } else {
        require(pieces.said == whole.said)
      }
    }
  }
}

/// Puts the bytes into a socket in pieces.
private func feed<Next: Equatable>(
  _ bytes: [UInt8], _ size: Int, most: Int, waiting: Next, take: (UnsafeRawBufferPointer) -> NegotiationStep<Next>
) -> (said: [UInt8], next: Next) {
  var said: [UInt8] = []
  var next = waiting
  var rest = bytes[...]
  var socket: [UInt8] = []
  while !rest.isEmpty {
    socket += rest.prefix(size)
    rest = rest.dropFirst(min(size, rest.count))
    let step = socket.withUnsafeBytes(take)
    require(step.consumed >= 0 && step.consumed <= socket.count)
    if next != waiting {
      require(step.consumed == 0 && step.reply.isEmpty && step.next == next)
      continue
    }
    next = step.next
    said += step.reply
    socket.removeFirst(step.consumed)
    require(next != waiting || socket.count < most)
  }
  return (said, next)
}

private func hello(_ bytes: [UInt8]) {
  func read(_ count: Int) -> ClientHelloReader.Outcome {
    bytes[..<count].withUnsafeBytes { ClientHelloReader.read($0) }
  }
  let whole = read(bytes.count)
  for count in stride(from: 0, to: bytes.count, by: max(1, bytes.count / 64)) {
    let part = read(count)
    require(part == .incomplete || part == whole)
  }
  guard case .hello(let facts) = whole else { return }
  _ = ClientHelloReader.versionName(facts.version)
  require(facts.serverName.count <= 255)
  require(facts.serverName.allSatisfy { $0 > 0x20 && $0 < 0x7F && !(0x41...0x5A).contains($0) })
  require(facts.protocols.allSatisfy { (1...255).contains($0.count) })
}

private func isPrintable(_ reason: String) -> Bool {
  !reason.isEmpty && reason.utf8.count < 1100 && reason.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
}
