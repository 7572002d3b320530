import Bytes
import Crypto
import Glibc

/// The demo's folder: a CA, and certificates for the server, its echo upstream and one client.
///
/// Keys are for their owner alone (0600 in 0700). The CA's key is kept nowhere: whoever finds the folder can issue
/// nothing. Everything is made at once or kept as a whole, so that it always fits together.
struct DemoFiles {
  /// Absolute.
  let folder: String
  /// Of the echo upstream's key.
  let pin: String

  static let password = "demo"
  static let upstreamName = "echo.demo.internal"
  private static let daysValid: Int64 = 90
  private static let daysLeft: Int64 = 7
  private static let pairs = ["server", "echo", "client"]

  init(in folder: String) throws(DemoFailure) {
    try Self.makeFolder(folder)
    guard let resolved = realpath(folder, nil) else { throw DemoFailure.system("realpath", folder) }
    self.folder = String(cString: resolved)
    free(resolved)
    if let kept = Self.pinOfKept(self.folder) {
      pin = kept
    } else {
      pin = try Self.make(in: self.folder)
    }
  }

  func path(_ name: String) -> String { "\(folder)/\(name)" }

  @discardableResult
  func write(_ text: String, to name: String) throws(DemoFailure) -> String {
    try Self.write(SecretBytes(Array(text.utf8)), to: path(name))
    return path(name)
  }

  // MARK: Kept

  /// nil when anything is missing, damaged, foreign to the CA, or about to expire.
  private static func pinOfKept(_ folder: String) -> String? {
    let soon = Int64(time(nil)) + daysLeft * 86_400
    guard let authority = try? Certificate.loadAll(MaterialReference(path: "\(folder)/ca.crt")).first,
      authority.notAfter > soon, access("\(folder)/client.p12", R_OK) == 0
    else { return nil }
    var pin: String?
    for name in pairs {
      let pair = try? CertifiedKey.load(
        certificate: MaterialReference(path: "\(folder)/\(name).crt"),
        key: MaterialReference(path: "\(folder)/\(name).key"))
      guard let pair, pair.certificate.notAfter > soon,
        pair.certificate.issuer.rfc2253 == authority.subject.rfc2253
      else { return nil }
      if name == "echo" { pin = Pin.spelling(publicKeyDigest: pair.key.spkiSHA256) }
    }
    return pin
  }

  // MARK: Made

  private static func make(in folder: String) throws(DemoFailure) -> String {
    do {
      // A serial in its name: a CA of an earlier start is told apart from this one.
      let authority = try CertificateBuilder(
        commonName: "sallyport demo CA \(time(nil))", .authority(pathLength: 0), days: daysValid
      ).selfSigned(key: .generate())
      let server = CertificateBuilder(
        commonName: "localhost", .leaf([.serverAuth]), names: [.dns("localhost"), .ip("127.0.0.1"), .ip("::1")],
        days: daysValid)
      let echo = CertificateBuilder(
        commonName: upstreamName, .leaf([.serverAuth]), names: [.dns(upstreamName)], days: daysValid)
      var client = CertificateBuilder(
        commonName: "demo client", .leaf([.clientAuth]), names: [.email("client@demo.internal")], days: daysValid)
      client.subject.insert((.organization, "sallyport demo"), at: 0)

      let made = [
        "server": try server.signed(by: authority, key: .generate()),
        "echo": try echo.signed(by: authority, key: .generate()),
        "client": try client.signed(by: authority, key: .generate()),
      ]
      var pin = ""
      for name in pairs {
        guard let pair = made[name] else { continue }
        try write(SecretBytes(Array(pair.certificate.pem.utf8)), to: "\(folder)/\(name).crt")
        try write(pair.key.pem, to: "\(folder)/\(name).key")
        if name == "echo" { pin = Pin.spelling(publicKeyDigest: pair.key.spkiSHA256) }
        if name == "client" {
          let file = try PKCS12.encode(pair, name: "demo client", password: SecretBytes(Array(password.utf8)))
          try write(file, to: "\(folder)/client.p12")
        }
      }
      // Last: without it nothing counts as kept.
      try write(SecretBytes(Array(authority.certificate.pem.utf8)), to: "\(folder)/ca.crt")
      return pin
    } catch let failure as DemoFailure {
      throw failure
    } catch {
      throw DemoFailure(text: "can't make the certificates: \(error)")
    }
  }

  // MARK: Files

  /// Each missing folder of a path, for its owner alone.
  private static func makeFolder(_ path: String) throws(DemoFailure) {
    var made = path.hasPrefix("/") ? "" : "."
    for part in path.split(separator: "/") {
      made += "/\(part)"
      if mkdir(made, 0o700) != 0 && errno != EEXIST { throw DemoFailure.system("mkdir", made) }
    }
  }

  /// In one step: a reader sees the old file or the new one.
  private static func write(_ contents: SecretBytes, to path: String) throws(DemoFailure) {
    let draft = "\(path).new"
    unlink(draft)
    let file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw DemoFailure.system("open", draft) }
    let written = contents.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
    let code = errno
    close(file)
    guard written == contents.count else { throw DemoFailure.system("write", draft, code) }
    guard rename(draft, path) == 0 else { throw DemoFailure.system("rename", path) }
  }
}

extension DemoFailure {
  fileprivate static func system(_ call: String, _ path: String, _ code: Int32 = errno) -> DemoFailure {
    DemoFailure(text: "\(call)() \"\(path)\" failed (\(code): \(String(cString: strerror(code))))")
  }
}
