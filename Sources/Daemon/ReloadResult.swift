import Glibc
import Observability

/// How the reloads of the configuration went, in the file `reload` of the service's runtime directory.
///
/// systemd has no protocol for a reload that is refused. `sallyport reload` sends HUP and then reads this file, so that
/// `systemctl reload` fails if the configuration was refused. One line: the number of the reload, its state, and words
/// for people. Without RuntimeDirectory= there is no file.
package struct ReloadResult: Sendable, Hashable {
  package enum State: String, Sendable {
    case running, done
    /// The configuration serves, but for files that can't be loaded.
    case partial
    case refused
  }

  /// Counts the reloads that began since the start.
  package var number: Int
  package var state: State
  package var words: String

  package init(number: Int = 0, state: State = .done, words: String = "") {
    self.number = number
    self.state = state
    self.words = words
  }

  /// Parses the line; nil if it is none.
  package init?(_ line: String) {
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, let number = Int(parts[0]), let state = State(rawValue: String(parts[1])) else {
      return nil
    }
    self.init(number: number, state: state, words: String(parts[2].prefix { !$0.isNewline }))
  }

  package var line: String {
    "\(number) \(state.rawValue) \(words.onOneLine)\n"
  }

  /// The file; nil without RuntimeDirectory=.
  package static var path: String? { path(of: "reload") }

  /// A file of the service's runtime directory; nil without RuntimeDirectory=.
  static func path(of name: String) -> String? {
    guard let value = getenv("RUNTIME_DIRECTORY") else { return nil }
    // Several directories are separated by colons; the first is the service's own.
    guard let folder = String(cString: value).split(separator: ":").first, folder.hasPrefix("/") else { return nil }
    return "\(folder)/\(name)"
  }

  /// Reads the file; nil if there is none.
  package static func read(_ path: String) -> ReloadResult? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var room = [UInt8](repeating: 0, count: 8192)
    let count = Glibc.read(descriptor, &room, room.count)
    guard count > 0 else { return nil }
    return ReloadResult(String(decoding: room.prefix(count), as: UTF8.self))
  }

  /// Replaces the file at once, so that a reader never sees a part. A failure is not a reason to stop.
  package func write(to path: String) {
    let fresh = path + ".new"
    let descriptor = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o644)
    guard descriptor >= 0 else { return }
    let bytes = Array(line.utf8.prefix(8000))
    let written = Glibc.write(descriptor, bytes, bytes.count)
    close(descriptor)
    guard written == bytes.count, rename(fresh, path) == 0 else {
      unlink(fresh)
      return
    }
  }
}

/// Writes the results of one process.
@MainActor
struct ReloadResults {
  private(set) var result = ReloadResult()
  private let path = ReloadResult.path

  /// The process serves; before that, `sallyport reload` has nothing to wait for.
  func announce() { if let path { result.write(to: path) } }

  mutating func began() {
    result = ReloadResult(number: result.number &+ 1, state: .running)
    announce()
  }

  mutating func ended(_ state: ReloadResult.State, _ words: String) {
    result.state = state
    result.words = words
    announce()
  }
}
