import Crypto
import Glibc
import Observability
import TLS
import Transport

/// Asks a process of this machine about its health, and looks at its listeners. Blocks, within the given time.
package struct HealthQuestion {
  /// The names of the process, of which any one that answers is enough.
  package let names: [HealthName]
  /// What to say if no process answers: which one was sought.
  package let sought: String
  package let seconds: Int
  /// Only what a restart could mend: the process and its workers.
  package let onlyLive: Bool

  package init(_ names: [HealthName], sought: String, within seconds: Int, onlyLive: Bool) {
    self.names = names
    self.sought = sought
    self.seconds = seconds
    self.onlyLive = onlyLive
  }

  package func ask() -> HealthReport {
    let deadline = Deadline(seconds: seconds)
    var report: HealthReport
    do throws(Unanswered) {
      let (answer, peer) = try answer(by: deadline)
      report = HealthReport(answer, process: peer.process, user: peer.user)
    } catch {
      return HealthReport(failure: error.reason)
    }
    if onlyLive { return report }
    report.judgeReload()
    for listener in report.answer?.listeners ?? [] {
      let (isGood, text) = Self.look(at: listener, report.answer?.mark, by: deadline)
      report.add(.listener, isGood ? .good : .failed, "\(listener.address) \(text)")
    }
    if report.answer?.listeners.isEmpty ?? true { report.add(.listener, .failed, "the process listens on no address") }
    report.judgeEnds(now: Int64(time(nil)))
    return report
  }

  // MARK: The process

  private struct Unanswered: Error { let reason: String }

  private func answer(by deadline: Deadline) throws(Unanswered) -> (HealthAnswer, AbstractSocket.Peer) {
    var reason = "no process runs \(sought)"
    // A stranger may have a name: then the process has a further one.
    let (usual, spare) = (names.map(\.description), names.flatMap(\.sparesInUse))
    let patience = spare.isEmpty ? Patience.waits : .no
    for name in usual + spare where !deadline.isOver {
      if let answer = try answer(on: name, of: .kin, patience, by: deadline, &reason) { return answer }
    }
    guard geteuid() == 0 else { throw Unanswered(reason: reason) }
    for name in spare + usual where !deadline.isOver {
      if let answer = try answer(on: name, of: .anybody, patience, by: deadline, &reason) { return answer }
    }
    throw Unanswered(reason: reason)
  }

  /// Whose answer counts. Anybody can bind a name that is free. So an answer counts if it comes from root or from the user
  /// who asks; and if root asks, who may look at every process, from anybody where these have none.
  private enum Answerer { case kin, anybody }
  /// Whether to wait for a place in a full queue.
  private enum Patience { case waits, no }

  /// nil: who has the name, if anybody, is not to be believed or gave no answer. `reason` then says so.
  private func answer(
    on name: String, of answerer: Answerer, _ patience: Patience, by deadline: Deadline, _ reason: inout String
  ) throws(Unanswered) -> (HealthAnswer, AbstractSocket.Peer)? {
    guard let client = try connect(to: name, patience, by: deadline) else { return nil }
    defer { close(client) }
    guard let peer = AbstractSocket.peer(of: client) else { return nil }
    guard answerer == .anybody || peer.user == 0 || peer.user == geteuid() else {
      reason = "process \(peer.process) of user \(peer.user) has the name of \(sought): ask as this user or as root"
      return nil
    }
    switch read(client, by: deadline) {
    case .whole(let answer): return (answer, peer)
    case .late: throw Unanswered(reason: "process \(peer.process) does not answer within \(seconds) s")
    case .refused:
      reason =
        "process \(peer.process) of user \(peer.user) gave no answer: it ends, or it answers only its own user and root"
      return nil
    }
  }

  /// Returns nil if nobody has the name.
  private func connect(to name: String, _ patience: Patience, by deadline: Deadline) throws(Unanswered) -> Int32? {
    while true {
      do throws(SocketError) {
        return try AbstractSocket.connect(to: name)
      } catch {
        switch error.code {
        case ECONNREFUSED: return nil
        case EAGAIN where patience == .no: return nil
        case EAGAIN where !deadline.isOver: deadline.pause(milliseconds: 50)
        case EAGAIN: throw Unanswered(reason: "the process takes no questions within \(seconds) s")
        default: throw Unanswered(reason: "the process can't be asked: \(error)")
        }
      }
    }
  }

  private enum Reading {
    case whole(HealthAnswer)
    case refused
    case late
  }

  private func read(_ client: Int32, by deadline: Deadline) -> Reading {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while bytes.count <= HealthAnswer.maximumLength {
      guard deadline.wait(for: client, Int16(POLLIN)) else { return .late }
      let count = Glibc.read(client, &chunk, chunk.count)
      if count < 0 && (errno == EINTR || errno == EAGAIN) { continue }
      guard count > 0 else { break }
      bytes += chunk[..<count]
    }
    return HealthAnswer(text: String(decoding: bytes, as: UTF8.self)).map { .whole($0) } ?? .refused
  }

  // MARK: Listeners

  private static func look(
    at listener: HealthAnswer.Listener, _ mark: HealthMark?, by deadline: Deadline
  ) -> (isGood: Bool, text: String) {
    guard let address = address(listener.address) else { return (false, "is no address") }
    // The header by which a health checker of the PROXY protocol connects in its own name.
    let header = listener.expectsHeader ? Array("PROXY UNKNOWN\r\n".utf8) : []
    let outcome = ListenerCheck.run(
      address, header: header, startsTLS: listener.opening != .plain, negotiation: listener.opening.negotiation,
      mark: mark, by: deadline)
    switch outcome {
    case .connected: return (true, "takes connections")
    case .presented(let certificate): return (true, "presents \(certificate.subject)")
    case .refused(let reason):
      return listener.opening == .refusingTLS
        ? (true, "refuses handshakes without a known name") : (false, "refused the handshake: \(reason)")
    case .failed(let reason): return (false, reason)
    }
  }

  /// The address of a socket as a process tells it; nil: the text is no address.
  static func bound(_ text: String) -> BoundAddress? {
    if text.hasPrefix("unix:") { return BoundAddress(.unix(path: String(text.dropFirst(5)))) }
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
    // Nobody tells which of IPv6 take clients of IPv4, too.
    return SocketAddress(literal: String(host), port: port).map { BoundAddress($0, isIPv6Only: false) }
  }

  /// The address to connect to: the loopback for a socket of all addresses.
  static func address(_ text: String) -> SocketAddress? {
    switch bound(text)?.address {
    case .ipv4(0, let port): .ipv4(address: INADDR_LOOPBACK, port: port)
    case .ipv6(0, 0, let port): .ipv6(high: 0, low: 1, port: port)
    case let other: other
    }
  }
}
