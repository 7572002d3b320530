import Synchronization

/// Collects the files that a parser opens, each once and in its order, and the folders in which it looks for patterns.
package final class SourceRecorder: Sendable {
  private let read = Mutex<(files: [(path: String, bytes: [UInt8])], paths: Set<String>)>(([], []))
  private let searched = Mutex<Set<String>>([])

  package init() {}

  package var files: [(path: String, bytes: [UInt8])] { read.withLock { $0.files } }
  /// Whether or not they had a file.
  var folders: Set<String> { searched.withLock { $0 } }

  /// The same source, whose files are recorded.
  package func recording(_ source: SourceFiles) -> SourceFiles {
    SourceFiles(
      read: { [self] path, limit in
        let result = source.read(path, limit)
        if case .success(let bytes) = result { add(path, bytes) }
        return result
      },
      expand: { [self] pattern in
        add(folderOf: pattern)
        return source.expand(pattern)
      })
  }

  func add(_ path: String, _ bytes: [UInt8]) {
    read.withLock { known in
      if known.paths.insert(path).inserted { known.files.append((path, bytes)) }
    }
  }

  /// The folder before the first name with a wildcard.
  private func add(folderOf pattern: String) {
    let names = pattern.split(separator: "/", omittingEmptySubsequences: false)
    let plain = names.dropLast().prefix { !$0.contains { "*?[".contains($0) } }.joined(separator: "/")
    searched.withLock { folders in
      _ = folders.insert(plain.isEmpty ? (pattern.hasPrefix("/") ? "/" : ".") : plain)
    }
  }
}
