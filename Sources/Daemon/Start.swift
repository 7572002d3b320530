import Configuration
import Crypto
import Features
import Forward
import Glibc
import Language
import Loading
import Observability
import Systemd
import Traffic

/// Does everything that comes before the first worker. The order matters: what needs root or the file system comes
/// before privileges are dropped, and nothing of another process is changed until this process holds every socket.
struct Start: Sendable {
  let source: ConfigurationSource
  let wording: @Sendable (Diagnostic) -> Diagnostic
  let logs: LogFiles
  let shared: SharedState
  /// Under these, `sallyport health` finds the process.
  let healthNames: [HealthName]
  /// The process that this one replaces.
  let predecessor: Predecessor?
  /// The sockets of socket units.
  let inherited: [InheritedSocket]
  /// The sockets of the predecessor, or of systemd's store.
  let kept: KeptSockets
  let preparation: Preparation
  let sockets: ListeningSockets
  let pidFile: PidFile?
  let workers: Int
  /// The number of connections that each worker may hold.
  let connections: Int
  let confinement: Confinement
  /// Warnings and notices.
  let diagnostics: [Diagnostic]

  init(
    _ source: ConfigurationSource, wording: @escaping @Sendable (Diagnostic) -> Diagnostic
  ) throws(Refusal) {
    self.source = source
    self.wording = wording
    predecessor = try Self.predecessor()
    let passed = if let predecessor { predecessor.sockets } else { try Self.inherit() }
    inherited = passed.filter { !KeptSocket.isName($0.name) }
    let shared = SharedState(features: Features.all)
    self.shared = shared
    let (settings, found) = try Preparation.read(source, sharing: shared)
    healthNames = HealthName.names(of: source, listening: settings.http.listeners.map(\.address))
    workers = settings.main.workers.resolved
    let limits = OpenFileLimit.raise(
      settings.main, workers: workers, sockets: settings.http.listeners.count &* workers)
    let cores = CoreLimit.set(settings.main)
    ServingFolders.make(settings)
    let holders = SocketHolder.words(for: settings.http.listeners, besides: passed)
    var confinement = try Confinement.begin(settings, configuration: source)
    var isRefused = true
    let begun = confinement
    defer { if isRefused { begun.close() } }
    let opener = confinement.opener
    var append: LogOpener?
    if let opener {
      PrivilegedFiles.use { opener.read($0) }
      append = { (path: String) throws(LogDestinationError) -> Int32 in try opener.append(path) }
    }
    let logs = LogFiles(journal: { JournalSink($0) }, opener: append, compressor: LogCompression.gzip)
    self.logs = logs
    var preparation = try NameWait.until { () throws(Refusal) in
      try Preparation(settings, after: found + limits + cores, number: 1, logs: logs, sharing: shared)
    }
    let passedOn = KeptSockets(passed)
    kept =
      predecessor == nil
      ? passedOn.released(for: settings.http.listeners, mostWaiting: OpenFileLimit.quarter) : passedOn
    sockets = try ListeningSockets(
      for: settings.http.listeners, workers: workers, inherited: inherited, kept: kept, keeping: nil,
      holders: holders)
    if settings.http.hasWritableAPI { try Self.restoreDenials(shared) }
    let (connections, shortage) = OpenFileLimit.connections(settings.main, workers: workers)
    self.connections = connections
    do throws(PidFileError) {
      pidFile = try settings.main.pidFile.map { (path) throws(PidFileError) in try PidFile(opening: path) }
    } catch {
      throw Refusal([Diagnostic(.error, at: settings.main.pidFileLocation, error.description)])
    }
    do throws(Refusal) {
      let ignored = try Privileges.drop(settings.main)
      preparation.removeDrafts()
      preparation.markForbidden()
      AuthState.takeOver(preparation.generation, shared)
      let unreadable = ServingAccess.warnings(settings, configuration: source, sharing: shared) { request in
        opener.map { $0.refusal(of: request) } ?? OpenerRefusal(EACCES)
      }
      confinement.restrictCalls()
      diagnostics =
        preparation.diagnostics + confinement.diagnostics + [shortage, ignored].compactMap { $0 } + unreadable
        + UnnamedSockets.warnings(inherited, settings.http.listeners)
    } catch {
      pidFile?.abandon()
      throw error
    }
    self.preparation = preparation
    self.confinement = confinement
    isRefused = false
  }

  private static func restoreDenials(_ shared: SharedState) throws(Refusal) {
    let state = DenialState.folder.map { DenialState(folder: $0) }
    do throws(DenialState.Fault) { try shared.restoreDenials(state) } catch {
      throw Refusal([error.diagnostic(path: state?.path ?? "")])
    }
  }

  private static func predecessor() throws(Refusal) -> Predecessor? {
    do throws(SocketActivationError) {
      return try Predecessor()
    } catch {
      throw Refusal([Diagnostic(.error, at: nil, error.message)])
    }
  }

  private static func inherit() throws(Refusal) -> [InheritedSocket] {
    do throws(SocketActivationError) {
      return try SocketActivation.inherit()
    } catch {
      throw Refusal([Diagnostic(.error, at: nil, error.message)])
    }
  }
}

extension DenialState.Fault {
  /// Why nobody knows who is denied.
  func diagnostic(path: String) -> Diagnostic {
    Diagnostic(
      .error, at: nil, "\"\(path)\", which keeps the denials of the API, can't be read: \(description)",
      hint: "mend it, or move it away: then nobody is denied")
  }
}
