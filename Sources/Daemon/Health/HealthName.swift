import Bytes
import Configuration
import Crypto
import Forward
import Glibc
import Language
package import Traffic
import Transport

/// A name of the abstract socket on which a process answers `sallyport health`.
///
/// The name is a hash, because paths may be longer than a name can be. It is no secret: both ends check who the other is.
package struct HealthName: Sendable, Hashable, CustomStringConvertible {
  package let description: String

  private init(_ kind: String, _ text: String) {
    let digest = Digest.of(Array("\(kind)\0\(text)".utf8))
    description = "sallyport/health/\(Hex.encode(Array(digest.prefix(16))))"
  }

  /// The names of the process that runs this configuration file: by the path as it is written, and by the path without
  /// symbolic links in its folder. A release that moves a link to the folder changes the second name, but not the first.
  package static func names(configuration path: String) -> [HealthName] {
    let written = absolute(path)
    let cut = written.lastIndex(of: "/") ?? written.startIndex
    let folder = written[..<cut].isEmpty ? "/" : String(written[..<cut])
    var paths = [written]
    if let resolved = realpath(folder, nil) {
      let found = String(cString: resolved)
      free(resolved)
      let real = (found == "/" ? "" : found) + written[cut...]
      if real != written { paths.append(real) }
    }
    let root = rootOfFiles
    return paths.map { HealthName("file", "\(root)\0\($0)") }
  }

  /// The names of the process that runs this configuration. A text without a file has those of its listeners, of at most
  /// 16.
  static func names(of source: ConfigurationSource, listening addresses: [ListenAddress]) -> [HealthName] {
    switch source {
    case .file(let path): names(configuration: path)
    case .standardInput, .text: addresses.prefix(16).map { HealthName(listening: $0) }
    }
  }

  /// The name of the process that listens on this address. In a network namespace, only one process can.
  package init(listening address: ListenAddress) { self.init("listen", address.description) }

  /// A further name that nobody can guess, for the case that a stranger has this one.
  var spare: String { "\(description)/\(Hex.encode((0..<8).map { _ in UInt8.random(in: 0 ... .max) }))" }

  /// The further names that are in use, whoever has bound them. The kernel lists them for the network namespace.
  var sparesInUse: [String] {
    guard let file = fopen("/proc/net/unix", "re") else { return [] }
    defer { fclose(file) }
    let mark = "@\(description)/"
    var found: Set<String> = []
    var line: UnsafeMutablePointer<CChar>?
    var room = 0
    defer { free(line) }
    while found.count < Self.mostSpares, getline(&line, &room, file) > 0, let line {
      let text = String(cString: line)
      guard let name = text.split(whereSeparator: \.isWhitespace).last, name.hasPrefix(mark) else { continue }
      found.insert(String(name.dropFirst()))
    }
    return found.sorted()
  }
  /// A stranger can bind any number of them.
  private static let mostSpares = 4096

  /// Containers may share a network namespace, and then each has its own files: the same path in two of them is not
  /// the same file. Their root folders differ.
  private static var rootOfFiles: String {
    var status = stat()
    return stat("/", &status) == 0 ? "\(status.st_dev)/\(status.st_ino)" : ""
  }

  /// The path from the root, without `.` and double slashes. `..` stays, because it may follow a link.
  private static func absolute(_ path: String) -> String {
    var whole = path
    if !path.hasPrefix("/"), let current = getcwd(nil, 0) {
      whole = "\(String(cString: current))/\(path)"
      free(current)
    }
    let parts = whole.split(separator: "/").filter { $0 != "." }
    return "/" + parts.joined(separator: "/")
  }
}
