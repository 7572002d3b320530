import Bytes
import Crypto
import Glibc
import Observability

/// The file of challenges that `proxy_auth_state` keeps. It is always written whole and replaced by a rename.
package struct ChallengeFile: Sendable {
  enum Contents {
    case absent
    case corrupted(String)
    case entries([(ChallengeKey, RememberedChallenge)])
  }

  /// How many counts the file reserves beyond the last used one. A process that crashes has used no count beyond them.
  static let reserve: UInt32 = 1024
  private static let sizeLimit = 8 << 20
  private static let heading = "sallyport-challenges 1"
  /// Every file that a directory of challenges may hold.
  package static let names: Set<String> = ["challenges", "challenges.new", "lock"]
  let path: String
  private let lock: String

  init(folder: String) {
    path = "\(folder)/challenges"
    lock = "\(folder)/lock"
  }

  /// Why challenges are remembered in memory only.
  struct ParseError: Error, CustomStringConvertible {
    let reason: String
    var description: String { "\(reason): until that changes, challenges are remembered in memory only" }
  }

  // MARK: Lock

  /// While a process holds this lock, no other process uses the directory's nonce counts.
  final class Lock: Sendable {
    private let descriptor: CInt

    init(_ path: String) throws(ParseError) {
      descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
      guard descriptor >= 0 else { throw ParseError(reason: "\(NewFile.Failure("open", path))") }
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        let code = errno
        close(descriptor)
        if code == EWOULDBLOCK {
          throw ParseError(reason: "\"\(path)\" is held: another process uses this proxy_auth_state")
        }
        throw ParseError(reason: "\(NewFile.Failure("flock", path, code))")
      }
    }

    deinit { close(descriptor) }
  }

  /// Takes the lock, reads the file and reserves counts for its entries. A file that can't be read is logged and counts
  /// as empty.
  func takeOver(_ log: ErrorLog?) throws(ParseError) -> (lock: Lock, entries: [(ChallengeKey, RememberedChallenge)]) {
    let held = try Lock(lock)
    switch read() {
    case .absent: return (held, [])
    case .corrupted(let reason):
      log?.warn("\"\(path)\" is ignored and will be replaced: \(reason)")
      return (held, [])
    case .entries(let entries):
      try write(entries)
      return (held, entries)
    }
  }

  // MARK: Reading

  func read() -> Contents {
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard file >= 0 else { return errno == ENOENT ? .absent : .corrupted(String(cString: strerror(errno))) }
    defer { close(file) }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = Glibc.read(file, &piece, piece.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return .corrupted(String(cString: strerror(errno))) }
      if count == 0 { break }
      bytes += piece[..<count]
      guard bytes.count <= Self.sizeLimit else { return .corrupted("it is larger than \(Self.sizeLimit >> 20) MiB") }
    }
    return Self.parse(bytes).map { .entries($0) } ?? .corrupted("it is damaged")
  }

  /// Returns nil unless every line is unchanged since it was written.
  static func parse(_ bytes: [UInt8]) -> [(ChallengeKey, RememberedChallenge)]? {
    guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    guard lines.popLast() == "", let last = lines.popLast(), lines.first == heading,
      last == "end " + checksum(lines)
    else { return nil }
    var entries: [(ChallengeKey, RememberedChallenge)] = []
    for line in lines.dropFirst() {
      guard let entry = entry(line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)) else {
        return nil
      }
      entries.append(entry)
    }
    return entries
  }

  private static func checksum(_ lines: [String]) -> String {
    Hex.encode(AuthenticationDigest.sha256.of(lines.joined(separator: "\n").utf8Bytes) ?? [])
  }

  private static func entry(_ words: [String]) -> (ChallengeKey, RememberedChallenge)? {
    guard words.count >= 3, let user = try? Base64.decode(words[1]), let server = text(words[2]) else { return nil }
    let key = ChallengeKey(user: user, server: server)
    switch (words[0], words.count) {
    case ("ntlm", 3): return (key, .ntlm)
    case ("basic", 4): return (try? Base64.decode(words[3])).map { (key, .basic(realm: $0)) }
    case ("digest", 14): return session(Array(words[3...])).map { (key, .digest($0)) }
    default: return nil
    }
  }

  private static func session(_ words: [String]) -> RememberedChallenge.DigestSession? {
    guard let realm = try? Base64.decode(words[0]), let nonce = try? Base64.decode(words[1]),
      let algorithm = DigestChallenge.Algorithm(rawValue: words[3]), let clientNonce = try? Base64.decode(words[8]),
      let sessionNonce = try? Base64.decode(words[9]), let used = UInt32(words[10]), !nonce.isEmpty
    else { return nil }
    let opaque = words[2] == "-" ? nil : try? Base64.decode(words[2])
    guard opaque != nil || words[2] == "-" else { return nil }
    let named = words[5].split(separator: ",").map(String.init)
    let protections = named.compactMap { DigestChallenge.Protection(rawValue: $0) }
    guard protections.count == named.count else { return nil }
    // These values go into a request field again, so a control character in the file must not get there.
    guard [realm, nonce, opaque ?? [], clientNonce].allSatisfy({ !$0.contains { $0 < 0x20 || $0 == 0x7F } }) else {
      return nil
    }
    return RememberedChallenge.DigestSession(
      challenge: DigestChallenge(
        realm: realm, nonce: nonce, opaque: opaque, algorithm: algorithm, saysAlgorithm: words[4] == "1",
        protections: Set(protections), isUTF8: words[6] == "1", hashesUser: words[7] == "1"),
      clientNonce: clientNonce, sessionNonce: sessionNonce, used: used)
  }

  private static func text(_ word: String) -> String? {
    (try? Base64.decode(word)).flatMap { String(validating: $0, as: UTF8.self) }
  }

  // MARK: Writing

  static func render(_ entries: [(ChallengeKey, RememberedChallenge)]) -> [UInt8] {
    let lines =
      [heading]
      + entries.map { key, challenge in
        let words = [Base64.encode(key.user), Base64.encode(key.server.utf8Bytes)] + words(challenge)
        return "\(name(challenge)) " + words.joined(separator: " ")
      }
    return (lines.joined(separator: "\n") + "\nend \(checksum(lines))\n").utf8Bytes
  }

  private static func name(_ challenge: RememberedChallenge) -> String {
    switch challenge {
    case .basic: "basic"
    case .ntlm: "ntlm"
    case .digest: "digest"
    }
  }

  private static func words(_ challenge: RememberedChallenge) -> [String] {
    switch challenge {
    case .ntlm: return []
    case .basic(let realm): return [Base64.encode(realm)]
    case .digest(let session):
      let challenge = session.challenge
      let reserved = session.used.addingReportingOverflow(reserve)
      return [
        Base64.encode(challenge.realm), Base64.encode(challenge.nonce), challenge.opaque.map(Base64.encode) ?? "-",
        challenge.algorithm.rawValue, challenge.saysAlgorithm ? "1" : "0",
        challenge.protections.map(\.rawValue).sorted().joined(separator: ","), challenge.isUTF8 ? "1" : "0",
        challenge.hashesUser ? "1" : "0", Base64.encode(session.clientNonce), Base64.encode(session.sessionNonce),
        "\(reserved.overflow ? .max : reserved.partialValue)",
      ]
    }
  }

  func write(_ entries: [(ChallengeKey, RememberedChallenge)]) throws(ParseError) {
    let bytes = Self.render(entries)
    guard bytes.count <= Self.sizeLimit else { throw ParseError(reason: "\"\(path)\" would be too large") }
    do throws(NewFile.Failure) { try NewFile.replace(path, SecretBytes(bytes), mode: 0o600) } catch {
      throw ParseError(reason: "\(error)")
    }
  }
}
