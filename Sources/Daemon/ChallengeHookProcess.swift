import CLinux
import Features
import Forward
import Glibc
import Loading
import Observability
import Sandbox
import Traffic

/// What the process of `ChallengeHook` does. It has one thread, and no key.
enum ChallengeHookProcess {
  /// Seconds that a program may take: it returns when the CA can see the record.
  static let longest: Int64 = 300
  /// Seconds for a program that removes a record when this process is to end.
  private static let longestAtEnd: Int64 = 8

  /// The record of a name (RFC 8555 §8.4), with the dot of the root, as lego's `exec` has it.
  static func record(of name: String) -> String { "_acme-challenge.\(name)." }

  private static let channel = Predecessor.channel

  static func serve(_ end: Int32, _ permitted: [ChallengeHook.Permission], _ main: MainSettings) -> Never {
    for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGTERM, SIGINT, SIGPIPE] { signal(number, SIG_IGN) }
    signal(SIGCHLD, SIG_DFL)
    if end != channel { dup2(end, channel) }
    linux_close_from(channel + 1)
    _ = fcntl(channel, F_SETFD, FD_CLOEXEC)
    // The process that serves reports the same failure itself.
    do throws(Refusal) { _ = try Privileges.drop(main) } catch { _exit(0) }
    linux_release_code()
    var server = Server(permitted: permitted)
    var bytes = [UInt8](repeating: 0, count: HookRequest.length + 1)
    while true {
      let count = recv(channel, &bytes, bytes.count, 0)
      if count < 0 && errno == EINTR { continue }
      // The end: the process that serves has ended.
      guard count > 0 else { break }
      guard let request = HookRequest(bytes[..<count]) else { continue }
      let answer = server.perform(request).bytes(number: request.number)
      _ = linux_send(channel, answer, answer.count)
    }
    server.cleanUp()
    _exit(0)
  }

  private struct Server {
    let permitted: [ChallengeHook.Permission]
    /// What may be set: more than one value of a name, for a wildcard beside its own name.
    private var records: [(permission: ChallengeHook.Permission, value: String)] = []
    private static let mostRecords = 1000

    init(permitted: [ChallengeHook.Permission]) { self.permitted = permitted }

    mutating func perform(_ request: HookRequest) -> HookOutcome {
      guard request.permission < permitted.count, records.count < Self.mostRecords else {
        return HookOutcome(kind: .refused, code: 0)
      }
      let permission = permitted[Int(request.permission)]
      records.removeAll { $0 == (permission, request.value) }
      // Even a program that fails may have set it.
      if request.verb == .present { records.append((permission, request.value)) }
      return HookProgram.run(permission, request.verb, request.value, within: longest, watching: channel)
    }

    mutating func cleanUp() {
      let end = MonotonicClock.seconds + longestAtEnd
      for (permission, value) in records {
        let left = end - MonotonicClock.seconds
        guard left > 0 else { return }
        _ = HookProgram.run(permission, .cleanup, value, within: left, watching: nil)
      }
    }
  }
}

/// One run of a program.
private enum HookProgram {
  private static let mostOutput = 4096

  /// `watching`: the channel at whose end the program is killed.
  static func run(
    _ permission: ChallengeHook.Permission, _ verb: ChallengeHook.Verb, _ value: String, within seconds: Int64,
    watching channel: Int32?
  ) -> HookOutcome {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { return HookOutcome(kind: .notStarted, code: errno) }
    defer { close(ends[0]) }
    // Programs write as they are used to; only this end must not wait.
    _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    var process: pid_t = 0
    let code = start(
      [permission.program, "\(verb)", ChallengeHookProcess.record(of: permission.name), value], output: ends[1],
      &process)
    close(ends[1])
    guard code == 0 else { return HookOutcome(kind: .notStarted, code: code) }
    var output: [UInt8] = [], status: Int32 = 0
    let deadline = MonotonicClock.seconds + seconds
    var isLate = false
    while true {
      read(ends[0], into: &output)
      let ended = waitpid(process, &status, WNOHANG)
      if ended == process { break }
      if ended < 0 && errno != EINTR { return HookOutcome(kind: .killed, code: SIGKILL) }
      if !isLate, MonotonicClock.seconds >= deadline || channel.map(isOver) ?? false {
        isLate = true
        kill(-process, SIGKILL)
      }
      usleep(20_000)
    }
    read(ends[0], into: &output)
    // What it has left in the background ends with it.
    kill(-process, SIGKILL)
    let said = HookOutcome.firstLine(of: output)
    if isLate { return HookOutcome(kind: .late, code: Int32(clamping: seconds), said: said) }
    let number = status & 0x7F
    return number == 0
      ? HookOutcome(kind: .exited, code: status >> 8 & 0xFF, said: said)
      : HookOutcome(kind: .killed, code: number, said: said)
  }

  /// Reads what is there, and keeps the beginning.
  private static func read(_ pipe: Int32, into output: inout [UInt8]) {
    var bytes = [UInt8](repeating: 0, count: mostOutput)
    for _ in 0..<64 {
      let count = Glibc.read(pipe, &bytes, bytes.count)
      guard count > 0 else { return }
      output += bytes.prefix(min(count, mostOutput - output.count))
    }
  }

  /// Whether the process at the other end has ended, or wants this one to.
  private static func isOver(_ channel: Int32) -> Bool {
    var state = pollfd(fd: channel, events: Int16(POLLIN), revents: 0)
    // No request comes while one is in work.
    return poll(&state, 1, 0) != 0
  }

  /// Starts a program without a shell, in a process group of its own. Returns an errno.
  private static func start(_ words: [String], output: Int32, _ process: inout pid_t) -> Int32 {
    var actions = posix_spawn_file_actions_t(), attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output, 1)
    posix_spawn_file_actions_adddup2(&actions, output, 2)
    _ = linux_spawn_closes_from(&actions, 3)
    var none = sigset_t(), all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(
      &attributes, Int16(truncatingIfNeeded: POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
    posix_spawnattr_setpgroup(&attributes, 0)
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    let lines: [UnsafeMutablePointer<CChar>?] = Predecessor.environmentOfPrograms.map { strdup($0) } + [nil]
    defer { for text in arguments + lines { free(text) } }
    return posix_spawn(&process, words[0], &actions, &attributes, arguments, lines)
  }
}
