import Dispatch
import Glibc
import Observability
import Traffic

/// Reports when a watched file differs from its state at load time (`ssl_reload`).
///
/// inotify on the directories only triggers a comparison, because files are replaced by renames and through links
/// (certbot, Kubernetes' ..data). The comparison of file states decides. A slow timer also compares, for changes that
/// inotify does not report: network file systems, links that change further away, and too few watches.
@MainActor
final class FileWatcher {
  private let changed: @MainActor ([String]) -> Void
  private let tick: @MainActor () -> Void
  private let descriptor: CInt
  private var source: (any DispatchSourceRead)?
  private var timer: (any DispatchSourceTimer)?
  private var settling: DispatchWorkItem?
  private var states = FileStates(of: [])
  private var watches: [String: CInt] = [:]

  /// Waits this long after the first event: a certificate and its key are replaced one after the other.
  private static let settleTime = DispatchTimeInterval.milliseconds(400)
  private static let lookInterval = DispatchTimeInterval.seconds(4)
  /// No IN_MODIFY: a log in the same folder would wake this process with each line. A file that its writer keeps open is
  /// compared by the timer.
  private static let events = UInt32(IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_DELETE | IN_ATTRIB)

  /// `changed` gets the changed files. `tick` runs with every comparison by the timer.
  init(changed: @escaping @MainActor ([String]) -> Void, tick: @escaping @MainActor () -> Void) {
    self.changed = changed
    self.tick = tick
    descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
    if descriptor >= 0 {
      let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: .main)
      source.setEventHandler { [unowned self] in MainActor.assumeIsolated { heard() } }
      source.activate()
      self.source = source
    }
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(deadline: .now() + Self.lookInterval, repeating: Self.lookInterval, leeway: .milliseconds(500))
    timer.setEventHandler { [unowned self] in
      MainActor.assumeIsolated {
        look()
        self.tick()
      }
    }
    timer.activate()
    self.timer = timer
  }

  /// Watches these files from now on, with their states at load time.
  func watch(_ states: FileStates) {
    self.states = states
    guard descriptor >= 0 else { return }
    let folders = Set(states.paths.flatMap { Self.folders(of: $0) })
    for (folder, watch) in watches where !folders.contains(folder) {
      inotify_rm_watch(descriptor, watch)
      watches[folder] = nil
    }
    for folder in folders where watches[folder] == nil {
      let watch = inotify_add_watch(descriptor, folder, Self.events)
      if watch >= 0 { watches[folder] = watch }
    }
  }

  /// The directories to watch for a file: its own, and the one that its links lead to. A directory of pins is watched
  /// itself.
  private static func folders(of path: String) -> [String] {
    func parent(_ path: String) -> String {
      guard let slash = path.lastIndex(of: "/") else { return "." }
      return slash == path.startIndex ? "/" : String(path[..<slash])
    }
    var folders = [parent(path)]
    if let real = realpath(path, nil) {
      defer { free(real) }
      let target = String(cString: real)
      var status = stat()
      folders.append(stat(target, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR ? target : parent(target))
    }
    return folders
  }

  /// Compares the files `settleTime` after the first of a series of events.
  private func heard() {
    // One read at a time: who writes in the folder without a pause keeps no signal from this queue. What is left
    // comes with the next event of the source.
    var buffer = [UInt8](repeating: 0, count: 4096)
    _ = Glibc.read(descriptor, &buffer, buffer.count)
    guard settling == nil else { return }
    let item = DispatchWorkItem { [weak self] in
      MainActor.assumeIsolated {
        self?.settling = nil
        self?.look()
      }
    }
    settling = item
    DispatchQueue.main.asyncAfter(deadline: .now() + Self.settleTime, execute: item)
  }

  private func look() {
    guard !states.isEmpty else { return }
    let now = states.now()
    let differences = now.differences(from: states)
    guard !differences.isEmpty else { return }
    // Reports a change once. If the reload is refused, the next change is reported again.
    watch(now)
    changed(differences)
  }
}
