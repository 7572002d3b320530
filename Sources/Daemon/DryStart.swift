import Features
import Forward
import Glibc
import Loading
package import Observability
import Systemd
package import Traffic
import Transport

/// What a start needs of the machine besides the configuration's files: addresses, logs, the pid file, and folders of
/// states. `check` tries all of it without an effect: no socket listens, and no file is made or changed.
package enum DryStart {
  /// What `check` tells of a start of this configuration on this machine, by this user.
  package static func trial(_ settings: Settings) -> [Diagnostic] {
    addresses(settings.http.listeners) + faults(settings)
  }

  /// The errors that `run` would end with, started now by the same user.
  static func faults(_ settings: Settings) -> [Diagnostic] {
    let files = LogFiles(onlyTrying: { JournalSink($0) }, compressor: LogCompression.gzip)
    let logs = OpenLogs(settings.main.errorLogs, settings.http, in: files)
    return logs.diagnostics + AuthState.trial(settings) + pidFile(settings.main) + denials(settings.http)
  }

  /// What binding the addresses says. An address in use is only a warning, as in nginx: the process that has it can be
  /// the one that this configuration will replace.
  static func addresses(_ listeners: [ListenerSettings]) -> [Diagnostic] {
    listeners.compactMap { listener -> Diagnostic? in
      // A socket of systemd's is handed over to the service alone.
      guard case .socket(let address) = listener.address else { return nil }
      if case .unix(let path) = address {
        return fault(ofSocket: path).map { ListenFailure.socket($0).diagnostic(listener, [], [:]) }
      }
      do throws(SocketError) {
        try Sockets.tryBinding(to: address, ipv6only: listener.options.ipv6only)
        return nil
      } catch {
        return error.code == EADDRINUSE
          ? occupied(listener) : ListenFailure.socket(error).diagnostic(listener, [], [:])
      }
    }
  }

  /// nil: a process of sallyport has the address, or nobody says who has it.
  private static func occupied(_ listener: ListenerSettings) -> Diagnostic? {
    guard let bound = BoundAddress(listener), let holder = SocketHolder.find(bound), let process = holder.process,
      process.name != "\(Product.name)"
    else { return nil }
    return Diagnostic(
      .warning, at: listener.location,
      "\(listener.address) is in use, so a start would be refused now: \(holder.words)",
      hint: "stop that process before sallyport starts")
  }

  /// A socket that is there is one of a crashed process, which a start replaces, or of the running one.
  private static func fault(ofSocket path: String) -> SocketError? {
    var status = stat()
    if lstat(path, &status) == 0 { return status.st_mode & S_IFMT == S_IFSOCK ? nil : SocketError("bind", EADDRINUSE) }
    let code = errno == ENOENT ? PathTrial.faultOfMaking(path) : errno
    return code.map { SocketError("bind", $0) }
  }

  private static func pidFile(_ main: MainSettings) -> [Diagnostic] {
    guard let path = main.pidFile else { return [] }
    do throws(PidFileError) {
      try PidFile.tryToOpen(path)
      return []
    } catch {
      return [Diagnostic(.error, at: main.pidFileLocation, error.description)]
    }
  }

  private static func denials(_ http: HTTPSettings) -> [Diagnostic] {
    guard http.hasWritableAPI, let folder = DenialState.folder else { return [] }
    let state = DenialState(folder: folder)
    do throws(DenialState.Fault) {
      _ = try state.read()
      return []
    } catch {
      return [error.diagnostic(path: state.path)]
    }
  }
}
