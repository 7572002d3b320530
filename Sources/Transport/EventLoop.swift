import CLinux
import Dispatch
import Glibc

/// The readiness that the kernel reports for a descriptor.
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32
  @inlinable public init(rawValue: UInt32) { self.rawValue = rawValue }
  public static let input = Readiness(rawValue: 0x001)
  public static let output = Readiness(rawValue: 0x004)
  public static let error = Readiness(rawValue: 0x008)
  public static let hangUp = Readiness(rawValue: 0x010)
  /// The peer has ended its side.
  public static let peerEnd = Readiness(rawValue: 0x2000)
}

/// An object that a loop calls for its descriptor, for its deadline, or after `EventLoop.again`.
///
/// A class and not a protocol: it is called through one pointer per event, without an existential.
open class EventTarget {
  public final let loop: EventLoop
  final var deadlineSlot = -1
  final var isAskedAgain = false
  /// Closed. A deadline that is set after this would keep the object forever.
  final var isOver = false

  public init(loop: EventLoop) { self.loop = loop }

  open func ready(_ readiness: Readiness) {}
  /// The deadline set by `setDeadline` has passed; it is taken back before the call.
  open func deadlinePassed() {}
  /// The turn that `EventLoop.again` promised.
  open func again() {}

  /// Whether a deadline is set: for tests, whose loop does not turn.
  package final var hasDeadline: Bool { loop.hasDeadline(self) }

  /// Milliseconds from now; nil takes the deadline back.
  public final func setDeadline(in milliseconds: Int?) {
    guard let milliseconds, !isOver else { return loop.clearDeadline(of: self) }
    loop.setDeadline(of: self, at: loop.now &+ UInt64(max(0, milliseconds)))
  }
}

/// A worker's loop: a serial Dispatch queue that owns an edge-triggered epoll set, woken by one long-lived source.
///
/// Why not a source a socket, why the linger, why the mailbox: docs/decisions/0002-event-loop.md. Everything here but
/// `post` and `stop` happens on the queue; that is what @unchecked promises.
public final class EventLoop: @unchecked Sendable {
  /// Room for what a stream reads and hands on at once: no byte stays in it beyond the call that read it.
  public final let readBuffer = UnsafeMutableRawBufferPointer.allocate(
    byteCount: EventLoop.readSize, alignment: MemoryLayout<UInt64>.alignment)
  /// Four records of TLS. The system gives a page of it when the page is used.
  private static let readSize = 64 * 1024
  public let index: Int
  /// Milliseconds of CLOCK_MONOTONIC, read once a batch.
  public private(set) var now: UInt64 = linux_monotonic_milliseconds()
  /// The one output buffer of this worker; see OutputCork.
  public let cork = OutputCork()

  private static let lingerMilliseconds = 20
  private static let batchSize = 256
  /// Blocks of other threads in one batch: a flood of finished jobs must not keep the events of others waiting.
  private static let postedBatchSize = 32

  private let queue: DispatchQueue
  private var epoll: Int32
  private let mailbox: Mailbox
  private var timer: Int32
  private var armed = UInt64.max
  private let nice = linux_nice()
  /// For `top -H`: Dispatch may run the queue on another thread after each sleep.
  private let threadName: [CChar]
  private var source: (any DispatchSourceRead)?
  private let events: UnsafeMutablePointer<epoll_event>
  private var deadlines = Deadlines<EventTarget>()
  private var askedAgain: [EventTarget] = []
  private var graveyard: [EventTarget] = []
  private var isStopped = false

  public init(index: Int) throws(SocketError) {
    let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard epoll >= 0 else { throw SocketError("epoll_create1", errno) }
    let timer = linux_timerfd()
    guard timer >= 0 else {
      let code = errno
      Glibc.close(epoll)
      throw SocketError("timerfd_create", code)
    }
    self.index = index
    self.threadName = "sp-worker-\(index)".utf8CString.map { $0 }
    self.epoll = epoll
    self.timer = timer
    self.mailbox = try Mailbox()
    self.queue = DispatchQueue(label: "sallyport.worker.\(index)", qos: .userInitiated)
    self.events = .allocate(capacity: Self.batchSize)
    // A nil target is the loop's own: the mailbox or the timer.
    _ = linux_epoll_ctl(epoll, EPOLL_CTL_ADD, mailbox.descriptor, linux_epoll_level_in(), nil)
    _ = linux_epoll_ctl(epoll, EPOLL_CTL_ADD, timer, linux_epoll_level_in(), nil)
  }

  deinit {
    closeDescriptors()
    events.deallocate()
    readBuffer.deallocate()
  }

  /// Starts to turn; `body` is the first thing that runs on the loop.
  public func start(_ body: @escaping @Sendable (EventLoop) -> Void) {
    post { body(self) }
    queue.async { [self] in
      let source = DispatchSource.makeReadSource(fileDescriptor: epoll, queue: queue)
      source.setEventHandler { [unowned self] in turn() }
      self.source = source
      source.activate()
    }
  }

  /// Runs a block on the loop, from any thread, in order. For what is rare: commands, resolved names.
  public func post(_ block: @escaping @Sendable () -> Void) { mailbox.post(block) }

  /// Ends the loop after the batch in which this runs. On the loop only.
  public func stop() { isStopped = true }

  // MARK: Calls of targets, on the loop

  public enum Interest {
    /// A stream: both directions, edge-triggered, added once.
    case stream
    /// A listening socket of this loop alone.
    case listener
    /// A listening socket shared with other loops: one of them is woken.
    case sharedListener
    /// A socket that a library reads and writes: level-triggered, and reported as writable only if the library waits
    /// for that.
    case ofLibrary(writes: Bool)

    fileprivate var mask: UInt32 {
      switch self {
      case .stream: linux_epoll_edge()
      case .listener: linux_epoll_level_in()
      case .sharedListener: linux_epoll_exclusive_in()
      case .ofLibrary(let writes): linux_epoll_level_in() | (writes ? Readiness.output.rawValue : 0)
      }
    }
  }

  /// Keeps the target until `remove`.
  public func add(_ target: EventTarget, descriptor: Int32, interest: Interest) throws(SocketError) {
    let retained = Unmanaged.passRetained(target)
    if linux_epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, interest.mask, retained.toOpaque()) != 0 {
      let code = errno
      retained.release()
      throw SocketError("epoll_ctl", code)
    }
  }

  /// Changes the interest in a descriptor that `add` has added for the same target.
  public func change(_ target: EventTarget, descriptor: Int32, interest: Interest) {
    let pointer = Unmanaged.passUnretained(target).toOpaque()
    _ = linux_epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, interest.mask, pointer)
  }

  /// Removes a descriptor before it is closed. The target stays until the end of the batch, because the batch can
  /// contain further events for it.
  public func remove(_ target: EventTarget, descriptor: Int32) {
    guard linux_epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, 0, nil) == 0 else { return }
    graveyard.append(target)
    Unmanaged.passUnretained(target).release()
    if target.deadlineSlot >= 0 {
      deadlines.remove(target.deadlineSlot)
      target.deadlineSlot = -1
    }
  }

  /// Calls `target.again()` after this batch, for long work that is split so that other targets get their turn.
  public func again(_ target: EventTarget) {
    guard !target.isAskedAgain else { return }
    target.isAskedAgain = true
    askedAgain.append(target)
  }

  func setDeadline(of target: EventTarget, at time: UInt64) {
    if target.deadlineSlot < 0 { target.deadlineSlot = deadlines.add(target) }
    deadlines.set(target.deadlineSlot, to: time)
  }

  /// Targets that the loop retains for a deadline: for tests.
  package var deadlineTargets: Int { deadlines.targets }

  func hasDeadline(_ target: EventTarget) -> Bool {
    target.deadlineSlot >= 0 && deadlines.isSet(target.deadlineSlot)
  }

  func clearDeadline(of target: EventTarget) {
    if target.deadlineSlot >= 0 { deadlines.set(target.deadlineSlot, to: .max) }
  }

  /// For targets without a descriptor that used a deadline.
  public func forgetDeadline(of target: EventTarget) {
    if target.deadlineSlot >= 0 { deadlines.remove(target.deadlineSlot) }
    target.deadlineSlot = -1
  }

  // MARK: Turning

  private func turn() {
    linux_keep_nice(nice)
    linux_name_thread(threadName)
    // The clock of the last turn may be old, and would make the first wait too long.
    now = linux_monotonic_milliseconds()
    while !isStopped, batch(timeout: lingerTime()) > 0 {}
    if isStopped {
      source?.cancel()
      source = nil
      return
    }
    armTimer()
  }

  private func lingerTime() -> Int32 {
    let next = deadlines.next
    if next <= now { return 0 }
    return Int32(truncatingIfNeeded: min(UInt64(Self.lingerMilliseconds), next - now))
  }

  /// Sets the timer to the earliest deadline, before the loop sleeps. A running loop limits its wait instead.
  private func armTimer() {
    let next = deadlines.next
    guard next != armed else { return }
    armed = next
    _ = linux_timerfd_arm(timer, next == .max ? 0 : max(1, next))
  }

  /// Waits once and handles all events; returns their number.
  private func batch(timeout: Int32) -> Int {
    let count = Int(epoll_wait(epoll, events, Int32(Self.batchSize), askedAgain.isEmpty ? timeout : 0))
    now = linux_monotonic_milliseconds()
    var done = max(0, count)
    var index: Int32 = 0
    while index < count {
      if let pointer = linux_epoll_target(events, index) {
        // The epoll set's reference, or the graveyard's after a removal, lasts until the end of the batch.
        Unmanaged<EventTarget>.fromOpaque(pointer)._withUnsafeGuaranteedRef {
          $0.ready(Readiness(rawValue: linux_epoll_events(events, index)))
        }
        cork.flush()
      } else {
        wakeUp()
      }
      index += 1
    }
    done += callAgain()
    while let target = deadlines.pop(now: now) {
      target.deadlinePassed()
      cork.flush()
      done += 1
    }
    if !graveyard.isEmpty { graveyard.removeAll(keepingCapacity: true) }
    return done
  }

  private func closeDescriptors() {
    for descriptor in [epoll, timer] where descriptor >= 0 { Glibc.close(descriptor) }
    (epoll, timer) = (-1, -1)
  }

  /// Lets go of the targets with deadlines and of the blocks of a loop that never runs, and closes what only a loop that runs
  /// needs. Clients that were left open hold the loop for as long as the process runs.
  package func abandon() {
    closeDescriptors()
    for target in deadlines.removeAll() { target.deadlineSlot = -1 }
    for target in askedAgain { target.isAskedAgain = false }
    askedAgain.removeAll()
    graveyard.removeAll()
    mailbox.removeAll()
  }

  private func callAgain() -> Int {
    guard !askedAgain.isEmpty else { return 0 }
    let targets = askedAgain
    askedAgain.removeAll(keepingCapacity: true)
    for target in targets {
      target.isAskedAgain = false
      target.again()
      cork.flush()
    }
    return targets.count
  }

  /// Runs what was posted, as far as one batch may. Tests call it on a loop that never runs.
  package func wakeUp() {
    var ticks: UInt64 = 0
    if Glibc.read(timer, &ticks, 8) == 8 { armed = .max }
    for block in mailbox.take(atMost: Self.postedBatchSize) {
      block()
      cork.flush()
    }
  }
}
