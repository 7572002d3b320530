import Negotiation
import Transport

/// A negotiation with the socket of its peer: what is said before the protocol of a connection to an upstream begins.
struct OpeningTalk<Machine: OpeningNegotiation> {
  private(set) var machine: Machine
  private var hasOpened = false

  init(_ machine: Machine) { self.machine = machine }

  enum Turn {
    case wait
    /// The next byte belongs to the protocol. `isFollowed`: it may have come, and no edge tells of it again.
    case done(isFollowed: Bool)
    case failed(Fault)
  }

  enum Fault {
    case closed, unreadable
    case refused(String)
  }

  /// Goes on with the bytes that are in the socket, whose stream still awaits its header.
  mutating func advance(_ transport: ByteStream) -> Turn {
    if !hasOpened {
      hasOpened = true
      transport.answerHeader(machine.opening)
    }
    let room = UnsafeMutableRawBufferPointer(rebasing: transport.loop.readBuffer.prefix(UpstreamNegotiation.most))
    while true {
      var input = UnsafeRawBufferPointer(start: nil, count: 0)
      switch transport.peek(into: room) {
      case .bytes(let count): input = UnsafeRawBufferPointer(rebasing: room[..<count])
      case .wouldBlock: return .wait
      case .end, .failed: return .failed(.closed)
      }
      let step = machine.take(input)
      if step.consumed > 0, !transport.takeHeader(step.consumed) { return .failed(.unreadable) }
      transport.answerHeader(step.reply)
      switch step.next {
      case .more:
        // No edge tells again of the end that came together with the bytes.
        guard transport.hasPeerEnd else { return .wait }
        if step.consumed == 0 { return .failed(.closed) }
      case .beginTLS, .done: return .done(isFollowed: step.consumed < input.count)
      case .end(let reason): return .failed(.refused(reason))
      }
    }
  }
}
