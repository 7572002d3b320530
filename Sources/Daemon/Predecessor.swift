import CLinux
import Forward
import Glibc
import Observability
import Systemd
import Traffic

/// The process whose place this one takes (USR2).
struct Predecessor: Sendable {
  /// The descriptor of the channel to it; the sockets follow.
  static let channel: Int32 = 3

  /// The names of the sockets, separated by colons.
  private static let socketsVariable = "SALLYPORT_SOCKETS"
  /// Set in the first of the two steps.
  private static let stepVariable = "SALLYPORT_DETACH"

  let sockets: [InheritedSocket]

  /// nil if the process was started by itself. Until `handOver`, it sends systemd nothing: it isn't the main process.
  init?() throws(SocketActivationError) {
    guard let value = getenv(Self.socketsVariable) else { return nil }
    let names = String(cString: value).split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    unsetenv(Self.socketsVariable)
    guard fcntl(Self.channel, F_SETFD, FD_CLOEXEC) >= 0 else {
      throw SocketActivationError(message: "\(Self.socketsVariable) is for sallyport to set, when it replaces itself")
    }
    Notification.holdBack(true)
    var sockets: [InheritedSocket] = []
    for (index, name) in names.enumerated() where !name.isEmpty {
      sockets.append(
        try SocketActivation.adopt(name: name, descriptor: Self.channel &+ 1 &+ Int32(clamping: index)))
    }
    self.sockets = sockets
  }

  /// The most that a predecessor says before `go`: its denials.
  private static let longest = DenialState.largest + 3

  /// Tells the predecessor that this process can serve, and waits until systemd knows it and the predecessor drains. Returns
  /// what the predecessor hands over, or nil if it has given this process up, or has ended: then this process must not
  /// serve. Otherwise two processes would, and a reload would reach one of them.
  func handOver() -> [UInt8]? {
    var patience = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(Self.channel, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let word = Array("\(getpid())\n".utf8)
    guard linux_send(Self.channel, word, word.count) == word.count else { return nil }
    let end = Array("go\n".utf8)
    var said: [UInt8] = []
    var room = [UInt8](repeating: 0, count: 16_384)
    while !said.suffix(end.count).elementsEqual(end), said.count <= Self.longest {
      let count = recv(Self.channel, &room, room.count, 0)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      said += room.prefix(count)
    }
    close(Self.channel)
    guard said.suffix(end.count).elementsEqual(end) else { return nil }
    Notification.holdBack(false)
    return said.dropLast(end.count)
  }

  /// The same, but ends this process if it must not serve. `take`: returns false if it can't read what is handed over.
  func handOverOrEnd(_ log: ErrorLog, _ take: ([UInt8]) -> Bool) {
    guard let handed = handOver() else {
      log.emerg("the process to be replaced has given up, or has ended: this one does not serve")
      _exit(1)
    }
    if !take(handed) { log.alert("the denials of the process that was replaced can't be read") }
  }

  // MARK: The two steps

  /// In the first step, starts the program once more and ends, so that the service manager adopts the new process. Call
  /// this before anything else.
  static func detach() {
    guard getenv(stepVariable) != nil else { return }
    unsetenv(stepVariable)
    guard let word = linux_argument(0) else { _exit(1) }
    var process: pid_t = 0
    let code = spawn(String(cString: word), .asThis, nil, currentEnvironment, &process)
    if code != 0 { LogFile.standardError.write(string: "sallyport: \(CannotReplace("can't start", code))\n") }
    _exit(code == 0 ? 0 : 1)
  }

  /// The environment of the first step.
  static func environment(handing names: [String]) -> [String] {
    environment(without: []) + ["\(socketsVariable)=\(names.joined(separator: ":"))", "\(stepVariable)=1"]
  }

  /// The environment of a program that isn't this one: without what the service manager says to this process.
  static var environmentOfPrograms: [String] { environment(without: ["NOTIFY_SOCKET=", "WATCHDOG_USEC=", "FDSTORE="]) }

  private static func environment(without further: [String]) -> [String] {
    // They name this process, or descriptors of it.
    let own = [
      "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", socketsVariable + "=", stepVariable + "=",
    ]
    return currentEnvironment.filter { line in !(own + further).contains { line.hasPrefix($0) } }
  }

  private static var currentEnvironment: [String] {
    var lines: [String] = []
    guard let all = linux_environment() else { return [] }
    while let line = all[lines.count] { lines.append(String(cString: line)) }
    return lines
  }

  /// Starts the first step with these descriptors, the channel first. Returns an errno.
  ///
  /// It leads a process group of its own, in which the second step stays: so whoever starts it can end both (`end`), whatever
  /// the program does.
  static func start(_ program: String, handing names: [String], _ passed: [Int32], _ process: inout pid_t) -> Int32 {
    // Copies above the numbers that the child gets, so that no copy overwrites another one's source.
    let end = channel &+ Int32(clamping: passed.count)
    var copies: [Int32] = []
    defer { for copy in copies { close(copy) } }
    for descriptor in passed {
      let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, end)
      guard copy >= 0 else { return errno }
      copies.append(copy)
    }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (index, copy) in copies.enumerated() {
      posix_spawn_file_actions_adddup2(&actions, copy, channel &+ Int32(clamping: index))
    }
    _ = linux_spawn_closes_from(&actions, end)
    return spawn(program, .own, &actions, environment(handing: names), &process)
  }

  /// Ends the process group of a first step, if one of its processes still has the channel: so the number of the group can't
  /// be that of another one. `channel` is this side's end. Returns false if there is nothing to end.
  static func end(_ group: pid_t, having channel: Int32) -> Bool {
    guard group > 1, !isClosed(channel) else { return false }
    return kill(-group, SIGKILL) == 0
  }

  /// Whether nobody has the other end of a channel any more.
  static func isClosed(_ channel: Int32) -> Bool {
    var state = pollfd(fd: channel, events: 0, revents: 0)
    return poll(&state, 1, 0) != 0
  }

  private enum Group { case own, asThis }

  /// Starts the program with this process's arguments, and with no signal blocked or ignored. Returns an errno.
  private static func spawn(
    _ program: String, _ group: Group, _ actions: UnsafePointer<posix_spawn_file_actions_t>?, _ environment: [String],
    _ process: inout pid_t
  ) -> Int32 {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t(), all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
    if group == .own { flags |= POSIX_SPAWN_SETPGROUP }
    posix_spawnattr_setflags(&attributes, Int16(truncatingIfNeeded: flags))
    posix_spawnattr_setpgroup(&attributes, 0)
    var words: [UnsafeMutablePointer<CChar>?] = []
    while let word = linux_argument(Int32(clamping: words.count)) { words.append(strdup(word)) }
    words.append(nil)
    let lines: [UnsafeMutablePointer<CChar>?] = environment.map { strdup($0) } + [nil]
    defer { for text in words + lines { free(text) } }
    return posix_spawnp(&process, program, actions, &attributes, words, lines)
  }
}
