import Bytes
package import Crypto
import Glibc
import JSON
import Observability

/// The folder of one issuer: the account, and a key with its certificates for each `acme_certificate`.
///
/// All of it has mode 0600 and is replaced atomically. Blocks, so never use it on an event loop.
package struct StateFolder: Sendable {
  package let path: String

  package init(_ path: String) { self.path = path }

  private func file(_ name: String) -> String { "\(path)/\(name)" }

  /// Makes the folder if it is missing. Throws for one that others may write to, or read keys from.
  package func prepare() throws(ACMEError) {
    if mkdir(path, 0o700) != 0, errno != EEXIST {
      throw ACMEError(
        "mkdir() \"\(path)\" failed (\(errno): \(String(cString: strerror(errno))))",
        hint: "make it for the user that serves: install -d -m 700 -o USER \(path)", cure: .change)
    }
    var state = stat()
    guard stat(path, &state) == 0, state.st_mode & S_IFMT == S_IFDIR else {
      throw ACMEError("\"\(path)\" is no folder", cure: .change)
    }
    guard state.st_mode & 0o022 == 0 else {
      throw ACMEError("others than its owner can write to \"\(path)\"", hint: "chmod 700 \(path)", cure: .change)
    }
  }

  // MARK: The lock

  /// Held by the process that asks the issuer for a certificate; the kernel releases it when the process ends.
  package struct Lock: ~Copyable {
    fileprivate let descriptor: CInt
    deinit { close(descriptor) }
  }

  /// Takes the lock for one attempt; nil while another process has it, such as the one that this process replaces.
  package func lock() throws(ACMEError) -> Lock? {
    let descriptor = open(file("lock"), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw Self.failed("open", file("lock")) }
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return Lock(descriptor: descriptor) }
    let code = errno
    close(descriptor)
    if code == EWOULDBLOCK || code == EINTR { return nil }
    throw Self.failed("flock", file("lock"), code)
  }

  // MARK: The account

  private static let accountKey = "account.key"
  private static let account = "account.json"

  /// Returns the account's key; makes one of this kind if there is none, or if the file has none. Such a file is kept
  /// under another name, and `damaged` tells.
  package func accountKey(
    _ kind: ACMEKeyKind, damaged: (ACMEError) -> Void = { _ in }
  ) throws(ACMEError) -> PrivateKey {
    let place = file(Self.accountKey)
    let fault = accountKeyFault
    if fault == nil, access(place, F_OK) == 0 { return try Self.key(MaterialReference(path: place)) }
    // Before the former file goes: without memory for a key, that file may only look damaged.
    let (key, text) = try ACMEError.crypto { () throws(OpenSSLError) in
      let key = try PrivateKey.generate(kind.kind)
      return (key, try key.pem)
    }
    if let fault {
      do throws(NewFile.Failure) { _ = try NewFile.setAside(place) } catch {
        throw Self.failed(error.call, error.path, error.code)
      }
      damaged(fault)
    }
    try write(text, as: Self.accountKey)
    return key
  }

  /// Why the file of the account's key has none; nil: it has one, or it can't be read at all, or there is no file.
  package var accountKeyFault: ACMEError? {
    let place = file(Self.accountKey)
    var state = stat()
    guard stat(place, &state) == 0, state.st_mode & S_IFMT == S_IFREG, access(place, R_OK) == 0 else { return nil }
    let reference = MaterialReference(path: place)
    let bytes: SecretBytes
    do throws(MaterialError) {
      bytes = try reference.read(expecting: .privateKey, onlyRegular: true)
    } catch {
      // Whatever else stops a read, such as a lack of descriptors, says nothing of the key, and may pass.
      return state.st_size == 0 ? ACMEError(error.message, hint: error.hint, cure: .change) : nil
    }
    do throws(ACMEError) {
      _ = try Self.key(in: bytes, of: reference)
      return nil
    } catch { return error }
  }

  /// Reads a private key.
  package static func key(_ reference: MaterialReference) throws(ACMEError) -> PrivateKey {
    let bytes: SecretBytes
    do throws(MaterialError) {
      bytes = try reference.read(expecting: .privateKey)
    } catch {
      throw ACMEError(error.message, hint: error.hint, cure: .change)
    }
    return try key(in: bytes, of: reference)
  }

  private static func key(in bytes: SecretBytes, of reference: MaterialReference) throws(ACMEError) -> PrivateKey {
    do {
      return try PrivateKey(pem: bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) })
    } catch {
      throw ACMEError("\"\(reference)\": no private key as PEM (\(error))", cure: .change)
    }
  }

  /// The account's URL at the server with this directory; nil if none is known for the key.
  package func accountURL(at directory: ACMEURL, of key: JSONWebKey) -> String? {
    guard let record = read(Self.account), record["directory"]?.text == directory.description,
      record["thumbprint"]?.text == Base64.encodeURL(key.thumbprint),
      let url = record["url"]?.text.flatMap({ ACMEURL($0) }),
      url.hasOrigin(of: directory)
    else { return nil }
    return url.description
  }

  package func keep(accountURL: String, at directory: ACMEURL, of key: JSONWebKey) throws(ACMEError) {
    var json = JSONText()
    json.object { json in
      json.member("directory", directory.description)
      json.member("thumbprint", Base64.encodeURL(key.thumbprint))
      json.member("url", accountURL)
    }
    try write(SecretBytes(Array(json.text.utf8)), as: Self.account)
  }

  // MARK: Certificates

  /// Room for a key and as many certificates as a chain has, and for the record.
  private static let room = 64 * 1024

  /// Takes the room of a certificate on the disk. A CA is asked after that: a certificate that can't be kept counts
  /// there all the same, and the next one too.
  package func room(for name: String) throws(ACMEError) -> ReservedFile {
    do throws(NewFile.Failure) {
      return try ReservedFile(file("\(name).pem"), bytes: Self.room)
    } catch {
      throw ACMEError(
        "\(error)",
        hint: "no certificate is ordered that could not be kept: make room, or let the user that serves write"
          + " in \"\(path)\"", cure: .change)
    }
  }

  package func keep(_ certificate: IssuedCertificate, in file: inout ReservedFile) throws(ACMEError) {
    let contents = try certificate.fileContents()
    do throws(NewFile.Failure) { try file.replace(contents) } catch {
      throw ACMEError("\(error)", hint: "the user that serves must be able to write in \"\(path)\"", cure: .change)
    }
  }

  package func keep(_ certificate: IssuedCertificate, as name: String) throws(ACMEError) {
    try write(try certificate.fileContents(), as: "\(name).pem")
  }

  /// What is known of a certificate's renewal; an empty record if nothing is.
  package func record(of name: String) -> RenewalRecord {
    read("\(name).json").map { RenewalRecord($0) } ?? RenewalRecord()
  }

  package func keep(_ record: RenewalRecord, of name: String) throws(ACMEError) {
    try write(SecretBytes(Array(record.text.utf8)), as: "\(name).json")
  }

  // MARK: Orders of `sallyport acme renew`

  private static let renewal = "renew"

  /// Asks the process that serves to renew all of the folder's certificates, or the one with this file name.
  package func askForRenewal(of name: String?) throws(ACMEError) {
    try write(SecretBytes(Array((name ?? "*").utf8)), as: Self.renewal)
  }

  /// Takes the request away. nil: there is none, or it can't be taken away, and would be obeyed again each time. `*`:
  /// all are meant.
  package func takeRequest() -> String? {
    guard access(file(Self.renewal), F_OK) == 0 else { return nil }
    let bytes = try? MaterialReference(path: file(Self.renewal)).read(expecting: .inspected, onlyRegular: true)
    guard unlink(file(Self.renewal)) == 0 else { return nil }
    guard let bytes else { return "*" }
    return bytes.withUnsafeBytes { String(decoding: $0.prefix(512), as: UTF8.self) }
  }

  // MARK: Files

  private func read(_ name: String) -> JSONValue? {
    guard access(file(name), F_OK) == 0,
      let bytes = try? MaterialReference(path: file(name)).read(expecting: .inspected, onlyRegular: true)
    else { return nil }
    return try? JSONValue(bytes.withUnsafeBytes { Array($0) })
  }

  private func write(_ contents: SecretBytes, as name: String) throws(ACMEError) {
    do throws(NewFile.Failure) {
      try NewFile.replace(file(name), contents, mode: 0o600)
    } catch {
      throw ACMEError("\(error)", hint: "the user that serves must be able to write in \"\(path)\"", cure: .change)
    }
  }

  private static func failed(_ call: String, _ path: String, _ code: CInt = errno) -> ACMEError {
    ACMEError(
      "\(NewFile.Failure(call, path, code))", hint: "the user that serves must be able to write in the folder",
      cure: .change)
  }
}

/// What a process remembers of one certificate's renewal.
package struct RenewalRecord: Sendable, Hashable {
  /// Attempts that failed since the last one that did not.
  package var failures = 0
  /// Attempts in all, by which `sallyport acme renew` sees that one has ended.
  package var attempts: Int64 = 0
  /// Seconds since 1970: the last attempt, and the next one.
  package var attemptedAt: Int64 = 0
  package var nextTry: Int64 = 0
  /// Why the last attempt failed; empty if it did not.
  package var lastError = ""
  /// What the server suggested, and when it is to be asked again; for the certificate of this name.
  package var window: RenewalWindow?
  package var windowOf = ""
  package var askWindowAt: Int64 = 0

  package init() {}

  /// Times of the file are brought into the years that dates have, so that sums of them stay numbers.
  init(_ value: JSONValue) {
    func time(_ name: String) -> Int64 { min(max(value[name]?.integer ?? 0, 0), 253_402_300_799) }
    failures = Int(clamping: min(max(value["failures"]?.integer ?? 0, 0), 1000))
    attempts = max(value["attempts"]?.integer ?? 0, 0)
    attemptedAt = time("attempted_at")
    nextTry = time("next_try")
    lastError = ACMEProblem.printable(value["last_error"]?.text ?? "")
    windowOf = value["window_of"]?.text ?? ""
    askWindowAt = time("ask_window_at")
    let (start, end) = (time("window_start"), time("window_end"))
    if start < end { window = RenewalWindow(start: start, end: end, askAgain: 0) }
  }

  var text: String {
    var json = JSONText()
    json.object { json in
      json.member("failures", failures)
      json.member("attempts", attempts)
      json.member("attempted_at", attemptedAt)
      json.member("next_try", nextTry)
      json.member("last_error", lastError)
      json.member("window_of", windowOf)
      json.member("ask_window_at", askWindowAt)
      if let window {
        json.member("window_start", window.start)
        json.member("window_end", window.end)
      }
    }
    return json.text
  }
}

extension ACMEError {
  static func crypto<Made>(_ make: () throws(OpenSSLError) -> Made) throws(ACMEError) -> Made {
    do throws(OpenSSLError) { return try make() } catch { throw ACMEError("OpenSSL: \(error)", cure: .change) }
  }
}
