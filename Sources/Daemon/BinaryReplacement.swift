import CLinux
import Dispatch
import Glibc
import Systemd

/// USR2: starts the program again, which takes over the listening sockets, while this process serves on.
///
/// The new process is made in two steps (`Predecessor.detach`), so that it is a child of the service manager and not of a
/// process that ends. It gets a channel on descriptor 3 and the sockets behind it. When it serves, it says so. This
/// process then tells systemd the new main process, and answers. If the channel ends before, the new process did not start.
/// If it neither serves nor ends in time, it is killed.
@MainActor
final class BinaryReplacement {
  /// What came of it.
  enum Outcome: Sendable {
    case serves(process: Int32)
    case failed(reason: String)
  }

  /// As long as systemd's `TimeoutStartSec=` gives a start. That limit doesn't hold for a process that USR2 starts.
  static let patience = 90

  private let channel: Int32
  private let starter: BinaryStarter?
  /// Without a starter: the process group that this process has started.
  private var group: pid_t = 0
  private var source: (any DispatchSourceRead)?
  private var heard: [UInt8] = []

  /// Starts the program, by `starter` if the sandbox doesn't let this process. `done` is called once. Throws why it can't
  /// be started. `patience`: in seconds.
  init(
    _ sockets: [(name: String, descriptors: [Int32])], by starter: BinaryStarter?,
    patience: Int = BinaryReplacement.patience, program: String? = linux_argument(0).map { String(cString: $0) },
    done: @escaping @MainActor (Outcome) -> Void
  ) throws(CannotReplace) {
    guard getpid() != 1 else {
      throw CannotReplace("this is process 1, and its end would end the container: start a new container instead")
    }
    guard let program else { throw CannotReplace("the program's own name is not known") }
    self.starter = starter
    (channel, group) = try Self.start(program, sockets, starter)
    let source = DispatchSource.makeReadSource(fileDescriptor: channel, queue: .main)
    source.setEventHandler { [self] in
      MainActor.assumeIsolated {
        guard let outcome = read() else { return }
        self.source?.cancel()
        self.source = nil
        done(outcome)
      }
    }
    self.source = source
    source.activate()
    DispatchQueue.main.asyncAfter(deadline: .now() + .seconds(patience)) { [weak self] in
      MainActor.assumeIsolated {
        guard let self, let source = self.source else { return }
        source.cancel()
        self.source = nil
        let words = "it neither served nor ended within \(patience) s"
        done(
          .failed(reason: self.kill() ? "\(words), and was killed" : "\(words), and could not be killed: look for it"))
      }
    }
  }

  /// Kills the new process, which has not served yet, and closes the channel. Returns whether it did.
  private func kill() -> Bool {
    defer { close(channel) }
    if let starter { return starter.end(having: channel) }
    return Predecessor.end(group, having: channel)
  }

  /// Tells the new process that systemd knows it: it serves and notifies from now on. Returns false if it has ended, or
  /// takes nothing for five seconds. `denials`: what it has to know before it serves. A process of an older version takes
  /// none, and then ends.
  func letGo(handing denials: String) -> Bool {
    defer { close(channel) }
    var patience = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    var words = Array("\(denials)go\n".utf8)[...]
    while !words.isEmpty {
      let count = words.withUnsafeBytes { linux_send(channel, $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return false }
      words = words.dropFirst(count)
    }
    return true
  }

  /// nil: not all has been said.
  private func read() -> Outcome? {
    var room = [UInt8](repeating: 0, count: 64)
    let count = recv(channel, &room, room.count, Int32(truncatingIfNeeded: MSG_DONTWAIT))
    if count < 0 && (errno == EAGAIN || errno == EINTR) { return nil }
    guard count > 0, heard.count < 256 else {
      close(channel)
      return .failed(reason: "it ended before it served")
    }
    heard += room.prefix(count)
    guard heard.last == UInt8(ascii: "\n") else { return nil }
    guard let process = Int32(String(decoding: heard.dropLast(), as: UTF8.self)), process > 1 else {
      close(channel)
      return .failed(reason: "it doesn't speak as this version does")
    }
    return .serves(process: process)
  }

  /// Returns this process's end of the channel, and the process group if this process started it.
  private static func start(
    _ program: String, _ sockets: [(name: String, descriptors: [Int32])], _ starter: BinaryStarter?
  ) throws(CannotReplace) -> (channel: Int32, group: pid_t) {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw CannotReplace("socketpair", errno) }
    defer { close(ends[1]) }
    let names = sockets.flatMap { socket in socket.descriptors.map { _ in socket.name } }
    let passed = [ends[1]] + sockets.flatMap(\.descriptors)
    do throws(CannotReplace) {
      guard let starter else { return (ends[0], try start(program, names, passed)) }
      try starter.start(handing: names, passed)
      return (ends[0], 0)
    } catch {
      close(ends[0])
      throw error
    }
  }

  private static func start(_ program: String, _ names: [String], _ passed: [Int32]) throws(CannotReplace) -> pid_t {
    var process: pid_t = 0
    let code = Predecessor.start(program, handing: names, passed, &process)
    guard code == 0 else { throw CannotReplace(program, code) }
    // The first step ends at once, unless it hangs.
    DispatchQueue(label: "sallyport.replacement").async { [process] in
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    }
    return process
  }
}

/// Why the program can't be started again.
struct CannotReplace: Error, Sendable, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }

  init(_ what: String, _ code: Int32) { description = "\(what): \(String(cString: strerror(code)))" }
}
