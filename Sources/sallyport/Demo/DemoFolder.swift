import Bytes
import Crypto
import Glibc
import Observability

/// The demo's folder. A new folder gets mode 0700; an existing one keeps its mode. Every file in it has mode 0600.
struct DemoFolder: Sendable {
  /// An absolute path.
  let path: String

  init(_ path: String) throws(DemoFailure) {
    try Self.make(path)
    guard let resolved = realpath(path, nil) else { throw DemoFailure.system("realpath", path) }
    self.path = String(cString: resolved)
    free(resolved)
  }

  /// Refuses a folder that belongs to another user or that others may write to: they could replace the demo's files.
  /// Does not change its mode.
  func refuseOthers() throws(DemoFailure) {
    var status = stat()
    guard stat(path, &status) == 0 else { throw DemoFailure.system("stat", path) }
    guard status.st_uid == geteuid() else {
      throw DemoFailure(
        text: "\(path) belongs to another user: with --dir, name a folder of your own or one that does not exist yet")
    }
    guard status.st_mode & 0o022 == 0 else {
      throw DemoFailure(
        text:
          "other users can write to \(path) and replace the demo's keys: run `chmod go-w`, or name a folder that does not exist yet"
      )
    }
  }

  /// Makes a folder for sockets with mode 0700, whatever the mode of this folder. A socket's own mode does not protect
  /// it.
  func socketFolder() throws(DemoFailure) -> String {
    let inner = file("run")
    if mkdir(inner, 0o700) != 0 && errno != EEXIST { throw DemoFailure.system("mkdir", inner) }
    let descriptor = open(inner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0 else { throw DemoFailure.system("open", inner) }
    defer { close(descriptor) }
    guard fchmod(descriptor, 0o700) == 0 else { throw DemoFailure.system("fchmod", inner) }
    return inner
  }

  /// `$XDG_DATA_HOME/sallyport/demo`, `~/.local/share/sallyport/demo`.
  static func standard() throws(DemoFailure) -> String {
    func variable(_ name: String) -> String? {
      getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
    }
    if let data = variable("XDG_DATA_HOME") { return "\(data)/sallyport/demo" }
    if let home = variable("HOME") { return "\(home)/.local/share/sallyport/demo" }
    throw DemoFailure(text: "neither XDG_DATA_HOME nor HOME is an absolute path: name a folder with --dir")
  }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  func holds(_ name: String) -> Bool { access(file(name), R_OK) == 0 }

  /// Returns nil when the files can't be read, or are not a certificate with its key.
  func pair(_ name: String) -> CertifiedKey? {
    try? CertifiedKey.load(
      certificate: MaterialReference(path: file("\(name).crt")), key: MaterialReference(path: file("\(name).key")),
      tokens: TokenRefusals())
  }

  /// Reads up to 64 KiB; nil when the file can't be read.
  func text(_ name: String) -> String? {
    let descriptor = open(file(name), O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = read(descriptor, &bytes, bytes.count)
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
  }

  @discardableResult
  func write(_ text: String, to name: String) throws(DemoFailure) -> String {
    try write(SecretBytes(Array(text.utf8)), to: name)
  }

  /// Replaces a file atomically: a reader sees the old file or the new one.
  @discardableResult
  func write(_ contents: SecretBytes, to name: String) throws(DemoFailure) -> String {
    let path = file(name)
    do throws(NewFile.Failure) { try NewFile.replace(path, contents, mode: 0o600) } catch {
      throw DemoFailure(text: "\(error)")
    }
    return path
  }

  /// Makes each missing folder of a path with mode 0700.
  private static func make(_ path: String) throws(DemoFailure) {
    var made = path.hasPrefix("/") ? "" : "."
    for part in path.split(separator: "/") {
      made += "/\(part)"
      if mkdir(made, 0o700) != 0 && errno != EEXIST { throw DemoFailure.system("mkdir", made) }
    }
  }
}

struct DemoFailure: Error {
  let text: String

  static func system(_ call: String, _ path: String, _ code: Int32 = errno) -> DemoFailure {
    DemoFailure(text: "\(NewFile.Failure(call, path, code))")
  }

  static func making<R>(_ body: () throws(OpenSSLError) -> R) throws(DemoFailure) -> R {
    do throws(OpenSSLError) { return try body() } catch {
      throw DemoFailure(text: "can't make the certificates: \(error)")
    }
  }

  /// Prints the error for the user who typed the command.
  func tell() { LogFile.standardError.write(string: "error: \(text)\n") }
}

/// The PEM of a key, for one of the demo's own files.
func pem(of key: PrivateKey) throws(DemoFailure) -> SecretBytes {
  try DemoFailure.making { () throws(OpenSSLError) -> SecretBytes in try key.pem }
}
