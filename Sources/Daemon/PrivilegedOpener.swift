import CLinux
import Configuration
import Crypto
import Features
import Forward
import Glibc
import Language
import Loading
import Observability
import Sandbox
import Synchronization
import Traffic

/// A second process that stays root where `user` takes root's rights from this one. It opens again what nginx's master
/// would: keys, certificates, logs, files of the configuration, and ports.
///
/// It opens what the configuration that root wrote names, by its own reading (`OpenerService`), and hands the descriptor
/// over. It reads no other file, and so has no key. It ends with this process.
final class PrivilegedOpener: Sendable {
  private let process: HelperProcess
  private var channel: Int32 { process.channel }
  /// One request at a time. The words say why nothing can be asked any more.
  private let turn = Mutex<String?>(nil)

  private static let patience = 10

  private init(_ process: HelperProcess) { self.process = process }

  /// Call this while the process has one thread, and before it reads a key. nil: this process gives no rights of root's up,
  /// or can't be copied.
  static func fork(_ settings: Settings, _ source: ConfigurationSource) -> PrivilegedOpener? {
    guard let user = Privileges.userToBecome(settings.main), linux_has_sanitizer() == 0,
      PrivilegeLimits.threads ?? 1 == 1
    else { return nil }
    let rules = FileNeeds.rulesOfOpener(settings)
    return HelperProcess.fork { PrivilegedOpenerProcess.serve($0, source, user, rules) }.map { PrivilegedOpener($0) }
  }

  /// Asks. Returns the descriptor, which the caller closes; nil where the request opens nothing. Blocks.
  func ask(_ request: OpenerRequest) throws(OpenerRefusal) -> Int32? {
    guard request.text.utf8.count <= OpenerRequest.longestText else { throw OpenerRefusal(ENAMETOOLONG) }
    return try turn.withLock { (end) throws(OpenerRefusal) in
      if let end { throw OpenerRefusal(EACCES, end) }
      do throws(OpenerRefusal) {
        return try exchange(request)
      } catch {
        // The answer to this request, when it comes, must not be taken for that to another one.
        if error.code == EPIPE { end = error.reason }
        throw error
      }
    }
  }

  private func exchange(_ request: OpenerRequest) throws(OpenerRefusal) -> Int32? {
    let number = UInt32.random(in: 0 ... .max)
    var limit = timeval(tv_sec: Self.patience, tv_usec: 0)
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let bytes = request.bytes(number: number)
    guard linux_send(channel, bytes, bytes.count) == bytes.count else { throw Self.gone }
    var room = [UInt8](repeating: 0, count: OpenerAnswer.room)
    var descriptors = [Int32](repeating: -1, count: Int(linux_passed_descriptors))
    while true {
      var count: Int32 = 0
      let length = linux_receive_descriptors(channel, &room, room.count, &descriptors, &count)
      if length < 0 && errno == EINTR { continue }
      guard length > 0, let (answered, answer) = OpenerAnswer.read(room[..<length]) else { throw Self.gone }
      let passed = descriptors.prefix(Int(count))
      guard answered == number, answer.refusal == nil else {
        for descriptor in passed { Glibc.close(descriptor) }
        if answered == number, let refusal = answer.refusal { throw refusal }
        continue
      }
      for descriptor in passed.dropFirst() { Glibc.close(descriptor) }
      return passed.first
    }
  }

  private static let gone = OpenerRefusal(
    EPIPE, "the opener of root's files has ended or hangs: restart, or replace the process (USR2)")

  /// Whether the other process has ended, without waiting for it. Reaps it.
  var hasEnded: Bool {
    guard process.hasEnded else { return false }
    turn.withLock { $0 = $0 ?? Self.gone.reason }
    return true
  }

  func close() { process.close() }

  // MARK: What is asked

  /// For `PrivilegedFiles`.
  func read(_ path: String) -> Result<Int32, PrivilegedFiles.Refusal> {
    do throws(OpenerRefusal) {
      guard let descriptor = try ask(OpenerRequest(.read, path)) else { return .failure(.init(EACCES)) }
      return .success(descriptor)
    } catch {
      return .failure(.init(error.code == EPIPE ? EACCES : error.code, error.reason))
    }
  }

  /// For `LogFiles`.
  func append(_ path: String) throws(LogDestinationError) -> Int32 {
    do throws(OpenerRefusal) {
      if let descriptor = try ask(OpenerRequest(.append, path)) { return descriptor }
      throw OpenerRefusal(EACCES)
    } catch {
      throw LogDestinationError(error.words)
    }
  }

  /// The files of the configuration that this process may not read.
  var files: SourceFiles {
    @Sendable func contents(_ request: OpenerRequest, _ limit: Int) -> Result<[UInt8], SourceFiles.Unreadable> {
      do throws(OpenerRefusal) {
        guard let descriptor = try self.ask(request) else { return .success([]) }
        defer { Glibc.close(descriptor) }
        return SourceFiles.contents(of: descriptor, limit)
      } catch {
        return .failure(.init(reason: error.words, isMissing: error.code == ENOENT))
      }
    }
    return SourceFiles(
      read: { path, limit in contents(OpenerRequest(.read, path), limit) },
      expand: { pattern in
        contents(OpenerRequest(.expand, pattern), Parser.maximumFileSize).map { bytes in
          bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
        }
      })
  }

  /// Why a request would open nothing; nil if it opens what it asks for. Call this for what a start only looks at.
  func refusal(of request: OpenerRequest) -> OpenerRefusal? {
    do throws(OpenerRefusal) {
      if let descriptor = try ask(request) { Glibc.close(descriptor) }
      return nil
    } catch {
      return error
    }
  }
}

/// What the process of `PrivilegedOpener` does. It has one thread, and no key.
enum PrivilegedOpenerProcess {
  private static let channel = Predecessor.channel

  static func serve(
    _ end: Int32, _ source: ConfigurationSource, _ user: ServingUser, _ rules: FileRules
  ) -> Never {
    // It ends by the end of the channel alone: systemd may signal every process of a service.
    for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGTERM, SIGINT, SIGPIPE] { signal(number, SIG_IGN) }
    if end != channel { dup2(end, channel) }
    linux_close_from(channel + 1)
    _ = fcntl(channel, F_SETFD, FD_CLOEXEC)
    linux_name_thread("sallyport-open")
    guard PrivilegeLimits.keepOnlyThoseOfOpener() else { _exit(1) }
    // A kernel without the one or the other has no such rules for the process that serves, either.
    _ = Landlock.restrict(to: rules)
    _ = SystemCallFilter.install(for: .opening(channel: channel))
    var service = OpenerService(source, for: user)
    linux_release_code()
    var bytes = [UInt8](repeating: 0, count: OpenerRequest.room + 1)
    while true {
      let count = recv(channel, &bytes, bytes.count, 0)
      if count < 0 && errno == EINTR { continue }
      // The end: the process that serves has ended.
      guard count > 0 else { _exit(0) }
      guard let (number, request) = OpenerRequest.read(bytes[..<count]) else { continue }
      answer(number, &service, request)
    }
  }

  private static func answer(_ number: UInt32, _ service: inout OpenerService, _ request: OpenerRequest) {
    do throws(OpenerRefusal) {
      let opened = try service.perform(request)
      let bytes = OpenerAnswer(refusal: nil).bytes(number: number)
      if let opened {
        _ = linux_send_descriptors(channel, bytes, bytes.count, [opened], 1)
        close(opened)
      } else {
        _ = linux_send(channel, bytes, bytes.count)
      }
    } catch {
      let bytes = OpenerAnswer(refusal: error).bytes(number: number)
      _ = linux_send(channel, bytes, bytes.count)
    }
  }
}
