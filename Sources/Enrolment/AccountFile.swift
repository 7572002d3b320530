package import Bytes
package import Crypto
import Glibc
import Observability
import Synchronization

/// Users and their password hashes (nginx's auth_basic_user_file): `USER:HASH[:COMMENT]` a line, `#` begins a comment.
package struct AccountFile: Sendable {
  private let lines: [(user: [UInt8], hash: PasswordHash)]

  package init(_ bytes: UnsafeRawBufferPointer) {
    lines = bytes.split(separator: 0x0A).compactMap { line in
      guard line.first != UInt8(ascii: "#") else { return nil }
      let fields = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
      guard fields.count > 1, !fields[0].isEmpty else { return nil }
      var hash = Array(fields[1])
      if hash.last == 0x0D { hash.removeLast() }
      return (Array(fields[0]), PasswordHash(hash))
    }
  }

  /// Loads a file. Blocks, so never call it on an event loop.
  package init(loading file: MaterialReference) throws(MaterialError) {
    self = try file.read(expecting: .accounts).withUnsafeBytes { AccountFile($0) }
  }

  /// Whether the file has this user with this password. The check takes as long for an unknown user as for a known one.
  package func admits(_ user: [UInt8], _ password: SecretBytes) -> Bool {
    let (hash, isKnown) = hash(for: user)
    return (hash?.matches(password) ?? false) && isKnown
  }

  package func contains(_ user: [UInt8]) -> Bool { lines.contains { $0.user == user } }

  /// Returns the hash to compare with a user's password; nil in an empty file.
  ///
  /// For an unknown user, the result is the hash of some line: the one whose digest with the name is the highest. This
  /// distributes unknown names over the lines like known users. The server does the same work for an unknown user as
  /// for a known one, so response time does not reveal which names exist. If it always used the most expensive hash, a
  /// faster response would reveal a known user.
  ///
  /// The choice needs no secret but the hashes. It is the same in every request and after a restart, and for most names
  /// also after a line is added or removed. The search for the digest runs for known users, too.
  package func hash(for user: [UInt8]) -> (hash: PasswordHash?, isKnown: Bool) {
    let name = Digest.of(user)
    var known: PasswordHash?
    var standIn: (hash: PasswordHash, score: [UInt8])?
    for line in lines {
      if known == nil, line.user == user { known = line.hash }
      let score = Digest.of(line.hash.text + name)
      if standIn?.score.lexicographicallyPrecedes(score) ?? true { standIn = (line.hash, score) }
    }
    return (known ?? standIn?.hash, known != nil)
  }
}

/// The result of checking a password for `auth_basic`, outside enrolment.
package enum PasswordVerdict: Sendable {
  case admitted
  case refused
  /// The number of seconds to wait.
  case tooMany(wait: Int64)
  /// The server failed, not the client.
  case broken(String)
  /// The file, which may be missing, doesn't exist.
  case missing

  /// Checks a password. `limit`: the failure limit of the enrolment location that uses the same file, and whose
  /// failures are counted together. nil: failures are not counted, as in nginx. `tick`: seconds of the monotonic clock.
  /// `mayBeMissing`: a variable names the file. Blocks, so never call it on an event loop.
  package init(
    on user: [UInt8], _ password: SecretBytes, by file: MaterialReference, mayBeMissing: Bool = false,
    _ limit: FailureWindow.Limit?, from address: String, _ state: EnrolmentState,
    at tick: Int64 = MonotonicClock.seconds
  ) {
    if mayBeMissing, file.isMissing {
      self = .missing
      return
    }
    let keys = [FailureWindow.Key.address(address), .user(user)]
    if let limit, let wait = state.failures.withLock({ $0.begin(keys, limit, at: tick) }) {
      self = .tooMany(wait: wait)
      return
    }
    do throws(MaterialError) {
      self = try AccountFile(loading: file).admits(user, password) ? .admitted : .refused
    } catch {
      self = .broken(error.message)
    }
    if case .refused = self { return }
    if limit != nil { state.failures.withLock { $0.forgive(keys, at: tick) } }
  }
}

/// The credentials of a request's Authorization field (RFC 7617, RFC 6750).
package enum ShownCredentials: Sendable {
  case basic(user: [UInt8], password: SecretBytes)
  case bearer(SecretBytes)

  /// Returns nil for another scheme and for a malformed value.
  package init?(_ field: UnsafeRawBufferPointer) {
    let bytes = Array(field)
    guard let space = bytes.firstIndex(of: 0x20) else { return nil }
    let rest = Array(bytes[space...].drop { $0 == 0x20 })
    switch String(decoding: bytes[..<space], as: UTF8.self).lowercased() {
    case "basic":
      guard let plain = try? Base64.decode(String(decoding: rest, as: UTF8.self)),
        let colon = plain.firstIndex(of: UInt8(ascii: ":"))
      else { return nil }
      self = .basic(user: Array(plain[..<colon]), password: SecretBytes(Array(plain[(colon + 1)...])))
    case "bearer": self = .bearer(SecretBytes(rest))
    default: return nil
    }
  }
}
