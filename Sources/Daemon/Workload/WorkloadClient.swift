import Bytes
import Dispatch
import Glibc
import HTTP
import Observability
import SPIFFE
import TLS
import Transport

/// What the client tells of the stream, each once.
enum WorkloadNews: Sendable {
  /// A message was taken. `isNew`: it differs from the former one, so what serves has to be loaded anew.
  case taken(WorkloadMaterial, isNew: Bool)
  /// A message has a fault. The former one stays.
  case refused(String)
  /// The stream failed, or could not begin; it begins again by itself.
  case failed(String)
  /// The agent has taken the identity back.
  case withdrawn(String)
}

/// Follows FetchX509SVID at one agent, on a queue of its own: it executes what `WorkloadStreamState` decides. No event loop
/// and not the main queue ever wait for the agent.
// @unchecked: everything that changes is used on `queue` alone.
final class WorkloadClient: @unchecked Sendable {
  private struct Connection {
    let descriptor: Int32
    let frames: WorkloadFrames
    let reading: any DispatchSourceRead
  }

  private let queue = DispatchQueue(label: "workload")
  private let path: String
  private let identity: WorkloadIdentity
  private let tell: @Sendable (WorkloadNews) -> Void
  private var state = WorkloadStreamState()
  /// What this agent gave last, whose parts stay where those of the next message have a fault.
  private var former: WorkloadMaterial?
  private var connection: Connection?
  /// Changes with each phase: a timer of an earlier one does nothing.
  private var turn: UInt64 = 0
  private var input = [UInt8](repeating: 0, count: 64 << 10)

  private static let outputLimit = 256 << 10
  /// Milliseconds until bytes that the agent doesn't take are offered again.
  private static let offerTime = 100

  /// `tell` is called on the client's queue.
  init(_ path: String, _ identity: WorkloadIdentity, tell: @escaping @Sendable (WorkloadNews) -> Void) {
    self.path = path
    self.identity = identity
    self.tell = tell
  }

  func start() { queue.async { [self] in perform(state.started()) } }
  func stop() { queue.async { [self] in perform(state.stopped()) } }

  /// The identity ends, and the stream is silent: asks anew, in case the agent hangs.
  func askAgain() { queue.async { [self] in if state.phase == .following { fail("the agent sent no new identity") } } }

  private func perform(_ action: WorkloadStreamState.Action) {
    switch action {
    case .none: break
    case .connect: connect()
    case .pause(let time):
      disconnect()
      wait(time)
    case .withdraw(let time):
      disconnect()
      wait(time)
      withdraw()
    case .close: disconnect()
    }
  }

  private func wait(_ milliseconds: Int) {
    let turn = nextTurn()
    queue.asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { [self] in
      if turn == self.turn { perform(state.timePassed()) }
    }
  }

  private func nextTurn() -> UInt64 {
    turn &+= 1
    return turn
  }

  // MARK: The connection

  private func connect() {
    let descriptor: Int32
    do throws(SocketError) { descriptor = try Sockets.connect(to: .unix(path: path)) } catch {
      return fail("\(error)")
    }
    let frames = WorkloadFrames()
    let reading = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    reading.setEventHandler { [self] in read() }
    // The descriptor must stay open until the source has let go of it.
    reading.setCancelHandler { close(descriptor) }
    connection = Connection(descriptor: descriptor, frames: frames, reading: reading)
    reading.activate()
    guard frames.begin() else { return fail("out of memory") }
    let turn = nextTurn()
    queue.asyncAfter(deadline: .now() + .milliseconds(WorkloadStreamState.answerTime)) { [self] in
      guard turn == self.turn, state.phase == .asking else { return }
      fail("no answer within \(WorkloadStreamState.answerTime / 1000) s")
    }
    flush()
  }

  private func disconnect() {
    connection?.reading.cancel()
    connection = nil
    input.wipe()
    _ = nextTurn()
  }

  private func read() {
    guard let connection else { return }
    let count = recv(connection.descriptor, &input, input.count, 0)
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    guard count > 0 else {
      let reason = count < 0 ? String(cString: strerror(errno)) : "the agent closed the connection"
      return fail(reason)
    }
    let goesOn = input.withUnsafeBytes { connection.frames.take(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    // It held keys.
    input.wipe()
    flush()
    settle(connection.frames, goesOn: goesOn)
  }

  private func settle(_ frames: WorkloadFrames, goesOn: Bool) {
    if let message = frames.takeMessage() { take(message) }
    guard connection?.frames === frames else { return }
    if let fault = frames.fault {
      identity.update { $0.refused &+= 1 }
      return fail(fault.reason)
    }
    if frames.isOver { return fail(frames.status ?? .other(-1), frames.statusWords) }
    if !goesOn { fail("the endpoint does not speak HTTP/2: \(frames.failure ?? "no reason")") }
  }

  private func flush() {
    guard let connection, !connection.frames.output.isEmpty else { return }
    let output = connection.frames.output
    let count = send(connection.descriptor, output, output.count, Int32(truncatingIfNeeded: MSG_NOSIGNAL))
    if count < 0, errno != EAGAIN, errno != EINTR { return fail(String(cString: strerror(errno))) }
    connection.frames.output.removeFirst(max(0, count))
    guard !connection.frames.output.isEmpty else { return }
    guard connection.frames.output.count <= Self.outputLimit else { return fail("the agent reads nothing") }
    queue.asyncAfter(deadline: .now() + .milliseconds(Self.offerTime)) {
      [self, asked = ObjectIdentifier(connection.frames)] in
      if self.connection.map({ ObjectIdentifier($0.frames) }) == asked { flush() }
    }
  }

  // MARK: Messages

  private func take(_ message: [UInt8]) {
    var message = message
    defer { message.wipe() }
    let material: WorkloadMaterial
    do throws(WorkloadFault) {
      material = try WorkloadMaterial(message, after: former, verify: TrustBundles.fault)
    } catch {
      identity.update {
        $0.refused &+= 1
        $0.condition = .failing(reason: error.reason, since: $0.condition.failingSince ?? Int64(time(nil)))
      }
      return tell(.refused(error.reason))
    }
    former = material
    state.answered()
    var isNew = false
    identity.update {
      isNew = $0.material?.digest != material.digest
      $0.material = material
      $0.taken &+= 1
      $0.condition = .current
    }
    tell(.taken(material, isNew: isNew))
  }

  private func withdraw() {
    former = nil
    var hadOne = false
    identity.update {
      hadOne = $0.material != nil
      $0.material = nil
    }
    if hadOne { tell(.withdrawn("the agent says that this process has no identity any more")) }
  }

  private func fail(_ status: GRPCStatus, _ words: String) {
    let reason =
      status == .other(-1)
      ? "the stream ended without a status" : words.isEmpty ? "\(status)" : "\(status): \(words)"
    fail(reason, status == .permissionDenied ? .denied : .unavailable)
  }

  private func fail(_ reason: String, _ failure: WorkloadStreamState.Failure = .unavailable) {
    guard state.phase == .asking || state.phase == .following else { return }
    identity.update {
      $0.failures &+= 1
      $0.condition = .failing(reason: reason, since: $0.condition.failingSince ?? Int64(time(nil)))
    }
    tell(.failed(reason))
    perform(state.failed(failure, spread: .random(in: .min ... .max), now: MonotonicClock.milliseconds))
  }
}
