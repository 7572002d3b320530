import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Glibc
import Observability

struct TrustCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "trust",
    abstract: "Add the root of your own CA to this machine's trust store, or remove it.",
    discussion: """
      Programs on this machine then accept every server certificate that the CA issues. On Debian and its descendants, \
      the store is /usr/local/share/ca-certificates, and update-ca-certificates puts it into effect; that needs root. \
      Firefox and Chromium read NSS databases: --nss DIR.
      """,
    subcommands: [TrustAddCommand.self, TrustRemoveCommand.self]
  ).example("sallyport trust add /etc/sallyport/ca")
}

/// What both commands take.
struct TrustPlace: ParsableArguments {
  @Argument(help: "The folder of an authority, or a file with a root certificate.")
  var source: String
  @Option(
    help: ArgumentHelp(
      "Use this folder in place of the system's, and run nothing: for an image that is being built.", valueName: "dir"))
  var folder: String?
  @Option(help: ArgumentHelp("Use the NSS database in this folder alone, such as ~/.pki/nssdb.", valueName: "dir"))
  var nss: String?

  static let system = "/usr/local/share/ca-certificates"

  func validate() throws {
    if folder != nil, nss != nil { throw ValidationError("give --folder or --nss, not both") }
  }

  func root(isToRemove: Bool = false) throws(AuthorityError) -> TrustedRoot {
    let root = try TrustedRoot(source, isToRemove: isToRemove)
    print(
      InspectionPage.visible("\(root.certificate.subject), until \(AuthorityTime.rfc3339(root.certificate.notAfter))"))
    print("SHA-256 fingerprint \(root.fingerprint)")
    return root
  }

  func path(of root: TrustedRoot) -> String { "\(folder ?? Self.system)/\(root.name).crt" }

  /// Fails with the commands to run when the change needs root.
  func demandRoot(_ commands: String) throws(AuthorityError) {
    guard folder == nil, geteuid() != 0 else { return }
    throw AuthorityError("the system's trust store belongs to root; run as root:\n\(commands)")
  }

  func run(_ name: String, _ arguments: [String], package: String, hint: String? = nil) throws(AuthorityError) {
    print("running \(name) \(name == "sh" ? "update-ca-certificates" : arguments.joined(separator: " "))")
    do throws(DemoFailure) { try DemoTool.run(name, arguments, package: package) } catch {
      throw AuthorityError(error.text, hint: hint)
    }
  }
}

struct TrustAddCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "add", abstract: "Trust a root: a CA's own certificate that may sign others."
  ).example("sallyport trust add /etc/sallyport/ca")

  @OptionGroup var place: TrustPlace

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let root = try place.root()
      if let nss = place.nss { return try addToNSS(root, nss) }
      let path = place.path(of: root)
      try place.demandRoot(
        root.ownFile.map { "    install -m 644 \(quoted($0)) \(path)\n    update-ca-certificates" }
          ?? "    sallyport trust add \(quoted(place.source))")
      do throws(NewFile.Failure) {
        try NewFile.replace(path, SecretBytes(Array(root.certificate.pem.utf8)), mode: 0o644)
      } catch { throw AuthorityError("\(error)") }
      print("wrote \(path)")
      if place.folder == nil { try place.run("update-ca-certificates", [], package: "ca-certificates") }
    }
  }

  /// For a POSIX shell.
  private func quoted(_ path: String) -> String { "'\(path.replacing("'", with: "'\\''"))'" }

  private func addToNSS(_ root: TrustedRoot, _ folder: String) throws(AuthorityError) {
    let database = "sql:\(folder)"
    if access("\(folder)/cert9.db", F_OK) != 0 {
      throw AuthorityError(
        "\"\(folder)\" holds no NSS database (cert9.db)", hint: "make one: certutil -N -d \(database) --empty-password")
    }
    let draft = "\(folder)/\(root.name).\(UInt64.random(in: 0 ... .max)).draft"
    do throws(NewFile.Failure) {
      try NewFile.write(SecretBytes(Array(root.certificate.pem.utf8)), to: draft, mode: 0o600)
    } catch { throw AuthorityError("\(error)") }
    defer { unlink(draft) }
    try place.run(
      "certutil", ["-A", "-d", database, "-t", "C,,", "-n", root.name, "-i", draft], package: "libnss3-tools")
  }
}

struct TrustRemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove", abstract: "Stop to trust a root that `trust add` added."
  ).example("sallyport trust remove /etc/sallyport/ca")

  @OptionGroup var place: TrustPlace

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let root = try place.root(isToRemove: true)
      if let nss = place.nss {
        return try place.run(
          "certutil", ["-D", "-d", "sql:\(nss)", "-n", root.name], package: "libnss3-tools",
          hint: "a database that held the CA before keeps its own name for it: "
            + "find it with certutil -L -d sql:\(nss), and remove it with certutil -D -d sql:\(nss) -n NAME")
      }
      let path = place.path(of: root)
      try place.demandRoot("    rm \(path)\n    update-ca-certificates --fresh")
      guard unlink(path) == 0 else {
        guard errno == ENOENT else { throw AuthorityError("\(NewFile.Failure("unlink", path))") }
        print("\(path) is not there: this root was not trusted by `trust add`")
        return
      }
      print("removed \(path)")
      if place.folder == nil {
        try place.run("sh", ["-c", Self.removal, "sh", "\(root.name).crt"], package: "dash")
      }
    }
  }

  /// Runs update-ca-certificates(8) with one more line in a copy of its configuration. Listed as one to be removed, the
  /// CA loses its links in /etc/ssl/certs, and the hooks (Java's store) learn of it.
  private static let removal = """
    command -v update-ca-certificates >/dev/null || { echo 'apt install ca-certificates' >&2; exit 1; }
    conf=$(mktemp) || exit 1
    { cat /etc/ca-certificates.conf; echo; echo "!$1"; } >"$conf" && update-ca-certificates --certsconf "$conf"
    status=$?
    rm -f "$conf"
    exit $status
    """
}
