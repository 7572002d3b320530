import ArgumentParser
import CLinux
import Glibc
import Observability

/// `sallyport demo trust`: the only part of the demo that changes anything outside its folder, so it needs an explicit
/// command.
struct DemoTrustCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "trust", abstract: "Add the demo's CA to a trust store, or remove it.",
    discussion: """
      system: adds the CA to /usr/local/share/ca-certificates and runs update-ca-certificates; needs root. \
      nss: adds the CA and the client certificate to ~/.pki/nssdb, which Chromium reads, with certutil and pk12util.
      """
  ).example("sallyport demo trust system")

  enum Store: String, ExpressibleByArgument, CaseIterable { case system, nss }

  @Argument(help: "system or nss.")
  var store: Store

  @OptionGroup var place: DemoPlace

  @Flag(help: "Remove the CA from the store.")
  var remove = false

  @Option(help: "The folder of the NSS store.")
  var nssDir: String?

  private static let nickname = "sallyport demo CA"
  private static let systemFile = "/usr/local/share/ca-certificates/sallyport-demo.crt"

  func run() throws {
    do throws(DemoFailure) {
      let folder = try DemoFolder(try place.path())
      guard remove || folder.holds("ca.crt") else {
        throw DemoFailure(text: "\(folder.file("ca.crt")) does not exist: first start `sallyport demo` once")
      }
      switch store {
      case .system: try changeSystem(folder)
      case .nss: try changeNSS(folder)
      }
    } catch {
      error.tell()
      throw ExitCode.failure
    }
  }

  private func changeSystem(_ folder: DemoFolder) throws(DemoFailure) {
    guard geteuid() == 0 else {
      throw DemoFailure(text: "this needs root: sudo sallyport demo trust system --dir \(folder.path)")
    }
    if remove {
      unlink(Self.systemFile)
      // Listed as one to be removed, the CA loses its links in /etc/ssl/certs, and the hooks (Java's store) learn of
      // the removal.
      try DemoTool.run("sh", ["-c", Self.removal], package: "dash")
    } else {
      try DemoTool.run("cp", ["--", folder.file("ca.crt"), Self.systemFile])
      chmod(Self.systemFile, 0o644)
      try DemoTool.run("update-ca-certificates", [], package: "ca-certificates")
    }
  }

  /// Runs update-ca-certificates(8) with one more line in a copy of its configuration.
  private static let removal = """
    command -v update-ca-certificates >/dev/null || { echo 'apt install ca-certificates' >&2; exit 1; }
    conf=$(mktemp) || exit 1
    { cat /etc/ca-certificates.conf; echo; echo '!sallyport-demo.crt'; } >"$conf" && update-ca-certificates --certsconf "$conf"
    status=$?
    rm -f "$conf"
    exit $status
    """

  private func changeNSS(_ folder: DemoFolder) throws(DemoFailure) {
    let home = getenv("HOME").map { String(cString: $0) } ?? ""
    guard let path = nssDir ?? (home.hasPrefix("/") ? "\(home)/.pki/nssdb" : nil) else {
      throw DemoFailure(text: "HOME is not set to an absolute path: name the store with --nss-dir")
    }
    let store = try DemoFolder(path)
    let database = "sql:\(store.path)"
    if remove {
      // Removes each separately: if one is missing already, the other is still removed.
      var failures: [DemoFailure] = []
      for arguments in [["-D", "-n", Self.nickname], ["-F", "-n", "demo client"]] {
        do throws(DemoFailure) {
          try DemoTool.run("certutil", ["-d", database] + arguments, package: "libnss3-tools")
        } catch {
          failures.append(error)
        }
      }
      if failures.count == 2 { throw failures[0] }
      return
    }
    if !store.holds("cert9.db") {
      try DemoTool.run("certutil", ["-d", database, "-N", "--empty-password"], package: "libnss3-tools")
    }
    try DemoTool.run(
      "certutil", ["-d", database, "-A", "-t", "C,,", "-n", Self.nickname, "-i", folder.file("ca.crt")],
      package: "libnss3-tools")
    try DemoTool.run(
      "pk12util", ["-d", database, "-i", folder.file("client.p12"), "-W", DemoFiles.password, "-K", ""],
      package: "libnss3-tools")
  }
}

/// Runs a program of the system and waits for its end.
enum DemoTool {
  /// `package`: the Debian package to name when the program is missing.
  static func run(_ name: String, _ arguments: [String], package: String = "coreutils") throws(DemoFailure) {
    var words: [UnsafeMutablePointer<CChar>?] = ([name] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var process = pid_t()
    let result = posix_spawnp(&process, name, nil, nil, &words, linux_environment())
    guard result == 0 else {
      throw DemoFailure(
        text: result == ENOENT
          ? "\(name) is not installed: apt install \(package)"
          : "can't run \(name) (\(result): \(String(cString: strerror(result))))")
    }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 {
      guard errno == EINTR else { throw DemoFailure(text: "waitpid() failed (\(errno))") }
    }
    guard status == 0 else {
      throw DemoFailure(text: "\(name) \(arguments.joined(separator: " ")): failed, see above")
    }
  }
}
