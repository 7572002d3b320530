import Configuration
import Glibc
import Observability
import Proxy
import Systemd

/// All that comes before the first worker, in an order that matters: what needs root or the file system comes before
/// privileges are given up, and nothing of another process is touched before every socket is ours.
struct Start: Sendable {
  let path: String
  let logs: LogFiles
  let inherited: [InheritedSocket]
  let preparation: Preparation
  let sockets: ListeningSockets
  let pidFile: PidFile?
  let workers: Int
  /// That each worker may hold.
  let connections: Int
  /// Warnings and notices.
  let diagnostics: [Diagnostic]

  init(_ path: String) throws(Refusal) {
    self.path = path
    inherited = try Self.inherit()
    logs = LogFiles(journal: { JournalSink() })
    let (settings, found) = try Preparation.read(path)
    workers = settings.main.workers.resolved
    let limits = OpenFileLimit.raise(
      settings.main, workers: workers, sockets: settings.http.listeners.count &* workers)
    let cores = CoreLimit.set(settings.main)
    preparation = try Preparation(settings, after: found + limits + cores, number: 1, logs: logs)
    sockets = try ListeningSockets(
      for: settings.http.listeners, workers: workers, inherited: inherited, keeping: nil)
    let (connections, shortage) = OpenFileLimit.connections(settings.main, workers: workers)
    self.connections = connections
    do throws(PidFileError) {
      pidFile = try settings.main.pidFile.map { (path) throws(PidFileError) in try PidFile(opening: path) }
    } catch {
      throw Refusal([Diagnostic(.error, at: nil, error.description)])
    }
    do throws(Refusal) {
      let ignored = try Privileges.drop(settings.main)
      diagnostics =
        preparation.diagnostics + [shortage, ignored].compactMap { $0 } + Self.unreadable(preparation.files)
    } catch {
      pidFile?.abandon()
      throw error
    }
  }

  private static func inherit() throws(Refusal) -> [InheritedSocket] {
    do throws(SocketActivationError) {
      return try SocketActivation.inherit()
    } catch {
      throw Refusal([Diagnostic(.error, at: nil, error.message)])
    }
  }

  /// Files that were read at the start, and are not readable any more now that privileges were dropped: each of them
  /// stops every reload, that of a revocation too.
  private static func unreadable(_ files: FileStates) -> [Diagnostic] {
    files.paths.filter { access($0, R_OK) != 0 }.map { path in
      Diagnostic(
        .warning, at: nil, "\"\(path)\" can't be read as the user that serves: no reload will succeed",
        hint: "let the group of `user` read it, or start as that user (systemd: User=, LoadCredential=)")
    }
  }
}
