package import Crypto
import Glibc
import TLS

/// The states of files when they were read, to detect changes.
///
/// Take the states before loading the files. A change during the load then counts as a later change. That a file may no
/// longer be read is a change, too: from then on nobody can tell what it says.
package struct FileStates: Sendable, Equatable {
  private enum State: Sendable, Equatable {
    case missing
    /// The process may not read it. nil: the process may not even look at it.
    case forbidden(FileStamp?)
    /// `entries`: names and states of a directory's files; nil for other files.
    case readable(FileStamp, entries: [String: State]?)
  }

  private var states: [String: State]

  package init(of paths: Set<String>) {
    states = Dictionary(paths.map { ($0, Self.state(of: $0, depth: 1)) }) { first, _ in first }
  }

  package var paths: [String] { states.keys.sorted() }
  package var isEmpty: Bool { states.isEmpty }

  /// Returns the current states of the same files.
  package func now() -> FileStates { FileStates(of: Set(states.keys)) }

  /// Returns the paths of files whose states differ.
  package func differences(from other: FileStates) -> [String] {
    states.filter { path, state in other.states[path] != state }.keys.sorted()
  }

  /// Whether both have the file, or a file of a folder, in the same state.
  package func agree(with other: FileStates, on path: String) -> Bool {
    state(of: path).map { other.state(of: path) == $0 } ?? false
  }

  private func state(of path: String) -> State? {
    if let state = states[path] { return state }
    guard let slash = path.lastIndex(of: "/"), case .readable(_, let entries?) = states[String(path[..<slash])] else {
      return nil
    }
    return entries[String(path[path.index(after: slash)...])]
  }

  /// The files, and the files of directories, that the process may not read.
  package var forbidden: [String] { states.flatMap { Self.forbidden($1, at: $0) }.sorted() }

  package func isForbidden(_ path: String) -> Bool {
    state(of: path).map { !Self.forbidden($0, at: path).isEmpty } ?? false
  }

  /// Returns the states of files that root has read, as the user who serves from now on finds them: a file that looks the
  /// same and that this user may not read is no change, but forbidden from the start.
  package func seenByServingUser() -> FileStates {
    var seen = self
    for (path, state) in states { seen.states[path] = Self.seen(state, Self.state(of: path, depth: 1)) }
    return seen
  }

  private static func seen(_ read: State, _ now: State) -> State {
    switch (read, now) {
    case (.readable(let stamp, _), .forbidden(let other)) where other == nil || other == stamp: return now
    case (.readable(let stamp, let entries?), .readable(_, let current?)):
      let marked = entries.map { name, entry in (name, current[name].map { seen(entry, $0) } ?? entry) }
      return .readable(stamp, entries: Dictionary(marked) { first, _ in first })
    default: return read
    }
  }

  private static func forbidden(_ state: State, at path: String) -> [String] {
    switch state {
    case .missing, .readable(_, nil): []
    case .forbidden: [path]
    case .readable(_, let entries?): entries.flatMap { forbidden($1, at: "\(path)/\($0)") }
    }
  }

  /// `depth`: how many levels of directories to read.
  private static func state(of path: String, depth: Int) -> State {
    guard let stamp = FileStamp(path) else { return isForbidden(errno) ? .forbidden(nil) : .missing }
    if access(path, R_OK) != 0, isForbidden(errno) {
      guard case .success(let descriptor) = PrivilegedFiles.instead(of: errno, path) else { return .forbidden(stamp) }
      close(descriptor)
    }
    guard stamp.isDirectory, depth > 0 else { return .readable(stamp, entries: nil) }
    do throws(DirectoryError) {
      let names = Set(try namesInDirectory(path))
      let entries = names.map { ($0, state(of: "\(path)/\($0)", depth: depth - 1)) }
      return .readable(stamp, entries: Dictionary(entries) { first, _ in first })
    } catch {
      return isForbidden(error.code) ? .forbidden(stamp) : .readable(stamp, entries: nil)
    }
  }

  private static func isForbidden(_ code: CInt) -> Bool { code == EACCES || code == EPERM }
}

extension HTTPSettings {
  /// The files to watch: everything that decides who is trusted and which certificates are shown, where `ssl_reload` is
  /// on.
  package var watchedFiles: Set<String> { fileUses.watched }

  /// The files of keys, certificates and trust that every reload by HUP opens, watched or not.
  package var reloadedFiles: Set<String> {
    Set(fileUses.filter { $0.isLoaded && $0.material != nil }.compactMap(\.resolvedPath))
  }

  /// The paths of pins, which may be folders.
  package var pinPaths: [String] {
    fileUses.compactMap { use in if case .pins = use.subject { use.resolvedPath } else { nil } }
  }

  /// Every file of keys, certificates and trust that is loaded, and keys in tokens, each as the configuration names it
  /// first.
  package var materialReferences: [MaterialReference] { fileUses.filter(\.isLoaded).compactMap(\.material).distinct }

  /// The files that a reload or a request reads: keys, certificates, passwords, lists.
  package var filesForReading: [MaterialReference] { fileUses.compactMap(\.material).distinct }
}

extension [FileUse] {
  /// The files whose change makes a new generation.
  package var watched: Set<String> { Set(filter { $0.reading == .watched }.compactMap(\.resolvedPath)) }
}

extension FileUse {
  package var isLoaded: Bool { reading == .watched || reading == .loaded }
}

extension [MaterialReference] {
  /// Each file once: thousands of server blocks may name the same one.
  fileprivate var distinct: [MaterialReference] {
    var seen: Set<MaterialReference> = []
    return filter { seen.insert($0).inserted }
  }
}

extension PinSource {
  /// The path of a pin's file; nil for a pin that is a hash.
  package var path: String? { try? reference?.resolvedPath(expecting: .pin) }
}
