import CLinux
import Glibc
import Sandbox

/// A second process that starts the program again for USR2, because the sandbox lets this one start none.
///
/// It is a copy of this process from before the sandbox, and of before `user`: so the new process can read and bind what a
/// start can. All it does is to wait for the descriptors to hand on, and to
/// end what it has started if that hangs. The program, its arguments and its environment are
/// those of the start, so that who has taken over the sandboxed process can start nothing else. Of root's capabilities it
/// keeps those that a start makes use of, and it executes nothing that would have more. It ends with this process.
struct BinaryStarter: Sendable {
  private let process: HelperProcess
  private var channel: Int32 { process.channel }

  /// Call this while the process has one thread, and before it gives rights up. nil: the process can't be copied.
  static func fork() -> BinaryStarter? { HelperProcess.fork { serve($0) }.map { BinaryStarter(process: $0) } }

  /// Starts the program. `descriptors`: the channel to this process first, then the sockets with these names.
  func start(handing names: [String], _ descriptors: [Int32]) throws(CannotReplace) {
    let text = Array(names.joined(separator: ":").utf8)
    guard descriptors.count <= Int(linux_passed_descriptors), text.count <= Self.room else {
      throw CannotReplace("there are \(descriptors.count) sockets, and at most 249 can be handed over: restart instead")
    }
    let code = try order(.start, text, descriptors)
    guard code == 0 else { throw CannotReplace("the program", code) }
  }

  /// Kills the processes that it started last, if one of them still has the other end of `channel`. Returns whether it did.
  func end(having channel: Int32) -> Bool {
    do throws(CannotReplace) {
      return try order(.end, [], [channel]) == 0
    } catch {
      return false
    }
  }

  func close() { process.close() }

  var hasEnded: Bool { process.hasEnded }

  /// What the other process is to do.
  private enum Order: UInt8 { case start, end }

  /// Sends one message, and returns the errno of its answer.
  private func order(_ order: Order, _ text: [UInt8], _ descriptors: [Int32]) throws(CannotReplace) -> Int32 {
    let number = UInt32.random(in: 0 ... .max)
    var patience = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    // The number tells the answer from a late one to an earlier message.
    let bytes = withUnsafeBytes(of: number) { Array($0) } + [order.rawValue] + text
    guard linux_send_descriptors(channel, bytes, bytes.count, descriptors, Int32(clamping: descriptors.count)) >= 0
    else {
      let code = errno
      throw code == EPIPE || code == ECONNRESET ? Self.gone : CannotReplace("the process that starts the binary", code)
    }
    var answer = Answer(number: ~number, code: 0)
    while answer.number != number {
      let count = recv(channel, &answer, MemoryLayout<Answer>.size, 0)
      if count < 0 && errno == EINTR { continue }
      guard count == MemoryLayout<Answer>.size else {
        throw Self.gone
      }
    }
    return answer.code
  }

  private static let gone = CannotReplace("the process that starts the binary has ended or hangs: restart instead")

  private struct Answer {
    var number: UInt32
    /// An errno, or 0.
    var code: Int32
  }

  // MARK: The other process

  private static let room = 65_536
  /// The number and the kind before the text.
  private static let header = MemoryLayout<UInt32>.size + 1

  private static func serve(_ end: Int32) -> Never {
    for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE] { signal(number, SIG_IGN) }
    // The kernel reaps what it starts: a program that hangs must not stop it from serving the next message.
    signal(SIGCHLD, SIG_IGN)
    let channel = Predecessor.channel
    if end != channel { dup2(end, channel) }
    linux_close_from(channel + 1)
    // Whoever started it as root: what waits for years is to have no more rights than a start makes use of.
    guard PrivilegeLimits.keepOnlyThoseOfStart() else { _exit(0) }
    _ = fcntl(channel, F_SETFD, FD_CLOEXEC)
    guard let word = linux_argument(0) else { _exit(0) }
    let program = String(cString: word)
    var bytes = [UInt8](repeating: 0, count: room + header)
    var descriptors = [Int32](repeating: -1, count: Int(linux_passed_descriptors))
    var last: pid_t = 0
    linux_release_code()
    while true {
      var number: Int32 = 0
      let count = linux_receive_descriptors(channel, &bytes, bytes.count, &descriptors, &number)
      if count < 0 && errno == EINTR { continue }
      // The end: the process that serves has ended.
      guard count > 0 else { _exit(0) }
      let passed = Array(descriptors.prefix(Int(number)))
      var answer = Answer(number: 0, code: EINVAL)
      withUnsafeMutableBytes(of: &answer.number) { $0.copyBytes(from: bytes.prefix(min(count, $0.count))) }
      if count >= header, let order = Order(rawValue: bytes[header - 1]), let first = passed.first {
        answer.code = perform(order, program, bytes[header..<count], first, passed, &last)
      }
      for descriptor in passed { Glibc.close(descriptor) }
      _ = linux_send(channel, &answer, MemoryLayout<Answer>.size)
    }
  }

  /// `last`: the process group that was started last. Returns an errno.
  private static func perform(
    _ order: Order, _ program: String, _ text: ArraySlice<UInt8>, _ channel: Int32, _ passed: [Int32],
    _ last: inout pid_t
  ) -> Int32 {
    switch order {
    case .start:
      // The serving process may have given up waiting.
      guard !Predecessor.isClosed(channel) else { return EINVAL }
      let names = String(decoding: text, as: UTF8.self).split(separator: ":", omittingEmptySubsequences: false)
      return Predecessor.start(program, handing: names.map(String.init), passed, &last)
    case .end:
      defer { last = 0 }
      return Predecessor.end(last, having: channel) ? 0 : ESRCH
    }
  }
}
