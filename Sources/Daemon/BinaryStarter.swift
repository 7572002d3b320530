import CLinux
import Glibc

/// A second process that starts the program again for USR2, because the sandbox lets this one start none.
///
/// It is a copy of this process from before the sandbox, and of before `user`: so the new process can read and bind what a
/// start can. All it does is to wait for the descriptors to hand on. The program, its arguments and its environment are
/// those of the start, so that who has taken over the sandboxed process can start nothing else. It ends with this process.
struct BinaryStarter: Sendable {
  private let channel: Int32

  /// Call this while the process has one thread, and before it gives rights up. nil: the process can't be copied.
  static func fork() -> BinaryStarter? {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { return nil }
    let process = linux_fork()
    guard process != 0 else {
      // Otherwise the copy would hold both ends, and never see this process's end.
      close(ends[0])
      serve(ends[1])
    }
    close(ends[1])
    guard process > 0 else {
      close(ends[0])
      return nil
    }
    return BinaryStarter(channel: ends[0])
  }

  /// Starts the program. `descriptors`: the channel to this process first, then the sockets with these names.
  func start(handing names: [String], _ descriptors: [Int32]) throws(CannotReplace) {
    let text = Array(names.joined(separator: ":").utf8), number = UInt32.random(in: 0 ... .max)
    guard descriptors.count <= Int(linux_passed_descriptors), text.count <= Self.room else {
      throw CannotReplace("there are \(descriptors.count) sockets, and at most 249 can be handed over: restart instead")
    }
    var patience = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    // The number tells the answer from a late one to an earlier message.
    let bytes = withUnsafeBytes(of: number) { Array($0) } + text
    guard linux_send_descriptors(channel, bytes, bytes.count, descriptors, Int32(clamping: descriptors.count)) >= 0
    else { throw CannotReplace("the process that starts the binary", errno) }
    var answer = Answer(number: ~number, code: 0)
    while answer.number != number {
      let count = recv(channel, &answer, MemoryLayout<Answer>.size, 0)
      guard count == MemoryLayout<Answer>.size else {
        throw CannotReplace("the process that starts the binary has ended or hangs: restart instead")
      }
    }
    guard answer.code == 0 else { throw CannotReplace("the program", answer.code) }
  }

  private struct Answer {
    var number: UInt32
    /// An errno, or 0.
    var code: Int32
  }

  // MARK: The other process

  private static let room = 65_536

  private static func serve(_ end: Int32) -> Never {
    for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE] { signal(number, SIG_IGN) }
    let channel = Predecessor.channel
    if end != channel { dup2(end, channel) }
    linux_close_from(channel + 1)
    _ = fcntl(channel, F_SETFD, FD_CLOEXEC)
    guard let word = linux_argument(0) else { _exit(0) }
    let program = String(cString: word)
    var bytes = [UInt8](repeating: 0, count: room + MemoryLayout<UInt32>.size)
    var descriptors = [Int32](repeating: -1, count: Int(linux_passed_descriptors))
    while true {
      var number: Int32 = 0
      let count = linux_receive_descriptors(channel, &bytes, bytes.count, &descriptors, &number)
      if count < 0 && errno == EINTR { continue }
      // The end: the process that serves has ended.
      guard count > 0 else { _exit(0) }
      let passed = Array(descriptors.prefix(Int(number)))
      var answer = Answer(number: 0, code: EINVAL)
      withUnsafeMutableBytes(of: &answer.number) { $0.copyBytes(from: bytes.prefix(min(count, $0.count))) }
      let names = String(decoding: bytes.prefix(count).dropFirst(MemoryLayout<UInt32>.size), as: UTF8.self)
        .split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      // The serving process may have given up waiting.
      if let replaced = passed.first, !isClosed(replaced) {
        var process: pid_t = 0
        answer.code = Predecessor.start(program, handing: names, passed, &process)
        var status: Int32 = 0
        if answer.code == 0 { while waitpid(process, &status, 0) < 0 && errno == EINTR {} }
      }
      for descriptor in passed { close(descriptor) }
      _ = linux_send(channel, &answer, MemoryLayout<Answer>.size)
    }
  }

  /// Whether nobody has the other end of a channel any more.
  private static func isClosed(_ descriptor: Int32) -> Bool {
    var state = pollfd(fd: descriptor, events: 0, revents: 0)
    return poll(&state, 1, 0) != 0
  }
}
