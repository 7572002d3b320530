import Bytes
import Crypto
import Glibc

/// A service's sidecar as one that joins: it makes a key, which never leaves its folder, and asks the keeper of the identities
/// for certificates and for the revocation list.
package struct ServiceMember {
  package let name: String
  private let token: JoinToken
  private let folder: String
  /// For `JoinMessage`: the same in each question.
  private let request: String
  private var held: Certificate?
  /// The number of the question that has no answer yet; empty for none.
  private var number = ""
  /// What the files have, as far as it is known.
  private var texts: [File: String] = [:]
  /// What the keeper said beside certificates; empty for nothing.
  package private(set) var note = ""

  private enum File: String, CaseIterable {
    case authority = "ca.crt"
    case list = "crl.pem"
    case certificate = "identity.pem"
  }

  package static let keyFile = "key.pem"

  /// `folder` is made if it isn't there. It keeps the key over restarts, because the token admits this key alone.
  package init(_ name: String, _ token: JoinToken, in folder: String) throws(AuthorityError) {
    self.name = name
    self.token = token
    self.folder = folder
    guard mkdir(folder, 0o700) == 0 || errno == EEXIST else { throw .system("mkdir", folder) }
    let key = try Self.key(at: "\(folder)/\(Self.keyFile)")
    do throws(OpenSSLError) {
      request = Base64.encode(try SigningRequest.make(names: [.dns(name)], key: key))
    } catch { throw AuthorityError("a request can't be made", error) }
    let path = "\(folder)/\(File.certificate.rawValue)"
    let last = (try? Certificate.loadAll(MaterialReference(path: path)))?.first
    held = last.flatMap { $0.publicKey == key.publicKey ? $0 : nil }
    let authority = MaterialReference(path: "\(folder)/\(File.authority.rawValue)")
    texts[.authority] = (try? authority.read(expecting: .anchors))?.withUnsafeBytes {
      String(decoding: $0, as: UTF8.self)
    }
  }

  /// Returns the key of a file; makes both if there is no file.
  private static func key(at path: String) throws(AuthorityError) -> PrivateKey {
    if access(path, F_OK) == 0 {
      let objects: [InspectedObject]
      do throws(MaterialError) {
        objects = try InspectedObject.loadAll(MaterialReference(path: path), passwords: [])
      } catch { throw AuthorityError(error) }
      for case .privateKey(let key) in objects { return key }
      throw AuthorityError("\"\(path)\" has no private key", hint: "remove it, and make new tokens")
    }
    let key: PrivateKey
    let text: SecretBytes
    do throws(OpenSSLError) {
      key = try .generate()
      text = try key.pem
    } catch { throw AuthorityError("a key can't be made", error) }
    var files = IssuedFiles()
    try files.stage(text, as: path, mode: 0o600)
    try files.publish()
    return key
  }

  /// Whether the folder has all that the sidecar serves with.
  package func isReady(at now: Int64) -> Bool {
    guard let held, let end = held.notAfter.seconds, end > now else { return false }
    return File.allCases.allSatisfy { access("\(folder)/\($0.rawValue)", F_OK) == 0 }
  }

  /// Returns the same question until it is answered: on a busy machine an answer may come late.
  package mutating func question() throws(AuthorityError) -> [UInt8] {
    if number.isEmpty {
      guard let random = SystemRandom.bytes(16) else { throw AuthorityError("the system gives no random bytes") }
      number = Hex.encode(random)
    }
    return JoinMessage.seal(.question, [name, number, held?.serial ?? "", request], by: token)
  }

  /// Asks, and takes the answer if it comes at once.
  package mutating func ask(_ socket: JoinSocket) throws(AuthorityError) {
    socket.send(try question())
    while let (datagram, _) = socket.receive(within: 300) {
      if try take(datagram) { return }
    }
  }

  /// Writes the configuration to the folder. Returns its path.
  package func keep(_ configuration: String) throws(AuthorityError) -> String {
    let path = "\(folder)/sallyport.conf"
    try write(configuration, to: path)
    return path
  }

  private func write(_ text: String, to path: String) throws(AuthorityError) {
    var files = IssuedFiles()
    try files.stage(SecretBytes(Array(text.utf8)), as: path, mode: 0o644, replacing: .file)
    try files.publish()
  }

  /// Writes what an answer has that is new. Returns false for a datagram that isn't the answer to the last question.
  package mutating func take(_ datagram: [UInt8]) throws(AuthorityError) -> Bool {
    guard let parts = JoinMessage.open(datagram, .answer, [name: token]), !number.isEmpty, parts[1] == number else {
      return false
    }
    number = ""
    // A line that isn't PEM's says which token the authority came with.
    let mark = "of token \(token.digest)\n"
    let authority = mark + parts[3]
    if let known = texts[.authority], known != authority, known.hasPrefix(mark) {
      throw AuthorityError(
        "the answer has another authority than the first one had",
        hint: "if the volume of sallyport-identities is lost, make new tokens by `sallyport compose override`; "
          + "otherwise somebody has stolen the token")
    }
    var fresh: Certificate?
    do throws(CryptoError) { if !parts[2].isEmpty { fresh = try Certificate.first(inPEM: parts[2]) } } catch {
      throw AuthorityError("the keeper sent a certificate that can't be read: \(error)")
    }
    // A list names the old certificate before the new one is there.
    for (file, text) in [(File.authority, authority), (.list, parts[4]), (.certificate, parts[2])]
    where !text.isEmpty && texts[file] != text {
      try write(text, to: "\(folder)/\(file.rawValue)")
      texts[file] = text
    }
    if let fresh { held = fresh }
    note = parts[5]
    return true
  }
}
