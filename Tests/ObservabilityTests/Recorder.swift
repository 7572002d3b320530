import Glibc
import Logging
import Synchronization

@testable import Observability

/// A third party's handler: keeps what it is told.
final class Recorder: Sendable {
  private let events = Mutex<[String]>([])
  var lines: [String] { events.withLock { $0 } }

  func handler() -> any LogHandler { Handler(recorder: self) }

  private struct Handler: LogHandler {
    let recorder: Recorder
    var logLevel = Logger.Level.info
    var metadata: Logger.Metadata = [:]
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }
    func log(event: LogEvent) {
      let line = "\(LogLevel(event).name) \(event.level) \(event.message)"
      recorder.events.withLock { $0.append(line) }
    }
  }
}

/// A folder of its own for a test, gone with it.
final class Folder {
  let path: String

  init() {
    var template = Array("/tmp/sallyport-test-XXXXXX".utf8CString)
    path = template.withUnsafeMutableBufferPointer { room in
      guard let base = room.baseAddress, mkdtemp(base) != nil else { return "" }
      return String(cString: base)
    }
  }

  deinit {
    for name in ["a.log", "a.log.1", "b.log"] { unlink("\(path)/\(name)") }
    rmdir(path)
  }

  /// The text of a file; empty when it can't be read.
  func text(_ name: String) -> String {
    let descriptor = open("\(path)/\(name)", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(descriptor, &piece, piece.count)
      guard count > 0 else { break }
      bytes += piece[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
