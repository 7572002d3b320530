import CLinux
import Configuration
import Crypto
import Enrolment
import Features
import Forward
import Glibc
package import Language
import Observability
import Synchronization
import Traffic
import Transport

/// What the opener opens: what the configuration that root wrote names, and nothing else.
///
/// It reads the configuration itself, and takes it only from files that root alone can change. A request can't add to it.
/// So who has taken over the process that serves gets what this process has served with already, or will.
package struct OpenerService {
  private let source: ConfigurationSource
  private let user: ServingUser
  private var names = OpenerNames()
  /// Why the configuration was not taken, the last time; nil if it was.
  private(set) var fault: String?

  package init(_ source: ConfigurationSource, for user: ServingUser) {
    self.source = source
    self.user = user
    readConfiguration()
  }

  /// Returns the descriptor that goes with the answer; nil where nothing is to be opened.
  package mutating func perform(_ request: OpenerRequest) throws(OpenerRefusal) -> Int32? {
    switch request.verb {
    case .configuration:
      readConfiguration()
      if let fault { throw OpenerRefusal(EACCES, fault) }
      return nil
    case .read:
      // A file of the configuration as the configuration itself was read.
      if names.configuration.contains(request.text) {
        return try GuardedPath.open(request.text, for: .read, trusting: .rootAlone)
      }
      guard names.reads(request.text) else { throw unnamed(request) }
      return try GuardedPath.open(request.text, for: .read, trusting: .anybodyBut(user))
    case .append:
      guard names.logs.contains(request.text) else { throw unnamed(request) }
      return try GuardedPath.open(request.text, for: .append, trusting: .anybodyBut(user))
    case .expand:
      guard let paths = names.patterns[request.text] else { throw unnamed(request) }
      return try memory(of: paths)
    case .listen, .listenShared:
      guard let listener = names.listeners[request.text], case .socket(let address) = listener.address else {
        throw unnamed(request)
      }
      do throws(SocketError) {
        return try Sockets.listen(
          on: address, backlog: listener.options.backlog, reuseport: request.verb == .listenShared,
          ipv6only: listener.options.ipv6only)
      } catch {
        throw OpenerRefusal(error.code)
      }
    }
  }

  /// Why a request would open nothing; nil if it opens what it asks for.
  package mutating func trial(of request: OpenerRequest) -> OpenerRefusal? {
    do throws(OpenerRefusal) {
      if let descriptor = try perform(request) { close(descriptor) }
      return nil
    } catch {
      return error
    }
  }

  private func unnamed(_ request: OpenerRequest) -> OpenerRefusal {
    OpenerRefusal(
      EACCES,
      fault.map { "the opener of root's files doesn't trust the configuration: \($0)" }
        ?? "no configuration that root wrote names it to the opener of root's files")
  }

  /// A fault keeps the former names: the process that serves keeps its former configuration then, too.
  private mutating func readConfiguration() {
    switch OpenerNames.read(source) {
    case .success(let names):
      self.names = names
      fault = nil
    case .failure(let refusal): fault = refusal.words
    }
  }

  private func memory(of paths: [String]) throws(OpenerRefusal) -> Int32 {
    let file = linux_memory_file("include")
    guard file >= 0 else { throw OpenerRefusal(errno) }
    let bytes = paths.map { Array($0.utf8) + [0] }.flatMap(\.self)
    var written = 0
    while written < bytes.count {
      let count = bytes[written...].withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
      guard count > 0 else {
        let code = errno
        close(file)
        throw OpenerRefusal(code)
      }
      written += count
    }
    lseek(file, 0, SEEK_SET)
    return file
  }
}

/// The names of a configuration that the opener opens.
struct OpenerNames {
  /// The files of the configuration itself.
  private(set) var configuration: Set<String> = []
  /// Certificates, keys, passwords, lists.
  private(set) var material: Set<String> = []
  /// Pins may be folders, whose files are read.
  private(set) var pins: Set<String> = []
  private(set) var logs: Set<String> = []
  private(set) var patterns: [String: [String]] = [:]
  /// By the text of their addresses.
  private(set) var listeners: [String: ListenerSettings] = [:]

  private final class Seen: Sendable { let names = Mutex(OpenerNames()) }

  /// Reads a configuration from files that root alone can change.
  static func read(_ source: ConfigurationSource) -> Result<OpenerNames, OpenerRefusal> {
    let seen = Seen()
    let files = SourceFiles(
      read: { path, limit in
        do throws(OpenerRefusal) {
          let descriptor = try GuardedPath.open(path, for: .read, trusting: .rootAlone)
          defer { close(descriptor) }
          seen.names.withLock { _ = $0.configuration.insert(path) }
          return SourceFiles.contents(of: descriptor, limit)
        } catch {
          return .failure(.init(reason: error.words, isMissing: error.code == ENOENT))
        }
      },
      expand: { pattern in
        let found = SourceFiles.disk.expand(pattern)
        if case .success(let paths) = found { seen.names.withLock { $0.patterns[pattern] = paths } }
        return found
      })
    // A state of servers is written by the process that serves: it names no file, and is not read here.
    let (settings, _, diagnostics) = Configuration.read(source, files: files, states: SourceFiles.none)
    guard let settings else {
      let first = diagnostics.first { $0.severity == .error }
      return .failure(OpenerRefusal(EACCES, first.map { "\($0.message)" } ?? "it can't be read"))
    }
    var names = seen.names.withLock { $0 }
    names.add(settings)
    return .success(names)
  }

  private mutating func add(_ settings: Settings) {
    let http = settings.http
    material = Set(http.filesForReading.compactMap { try? $0.resolvedPath(expecting: .certificate) })
    pins = Set(http.pinPaths)
    logs = Set(FileNeeds.fixedLogs(settings))
    for listener in http.listeners { listeners["\(listener.address)"] = listener }
  }

  func reads(_ path: String) -> Bool {
    if material.contains(path) || pins.contains(path) { return true }
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return false }
    let name = path[path.utf8.index(after: slash)...]
    return !name.isEmpty && name != "." && name != ".." && pins.contains(String(path[..<slash]))
  }
}
