import Bytes
import Crypto

/// `Content-Digest` (RFC 9530 §2): digests of a body as it is sent.
public struct ContentDigest: Sendable, Hashable {
  public enum Algorithm: String, Sendable, Hashable, CaseIterable {
    case sha256 = "sha-256"
    case sha512 = "sha-512"

    init?(_ key: [UInt8]) { self.init(rawValue: String(decoding: key, as: UTF8.self)) }

    var count: Int { self == .sha256 ? 32 : 64 }

    fileprivate var function: Digest.Algorithm { self == .sha256 ? .sha256 : .sha512 }
  }

  /// At least one of the two.
  public let digests: [Algorithm: [UInt8]]

  /// Parses the field's value. Digests by other algorithms are left out: SHA-1 and MD5 prove nothing.
  public init(_ value: [UInt8]) throws(SignatureFault) {
    var digests: [Algorithm: [UInt8]] = [:]
    let entries: [FieldEntry]
    do throws(FieldError) { entries = try FieldParser.dictionary(value) } catch { throw .digest("is \(error)") }
    for entry in entries {
      guard let algorithm = Algorithm(entry.key) else { continue }
      guard case .item(let item) = entry.member, case .bytes(let bytes) = item.value, bytes.count == algorithm.count
      else { throw .digest("has no \(algorithm.rawValue) of \(algorithm.count) bytes") }
      digests[algorithm] = bytes
    }
    guard !digests.isEmpty else { throw .digest("has neither sha-256 nor sha-512") }
    self.digests = digests
  }

  /// Whether all digests are those of the body that was hashed.
  public func matches(_ hashed: BodyDigests) -> Bool {
    digests.allSatisfy { algorithm, wanted in
      hashed.digest(algorithm).map { ConstantTime.equal($0, wanted) } ?? false
    }
  }

  public func matches(_ body: UnsafeRawBufferPointer) -> Bool {
    let hashed = BodyDigests(Array(digests.keys))
    hashed.update(body)
    return matches(hashed)
  }

  /// The field's value for a digest by SHA-256.
  public static func value(sha256 digest: [UInt8]) -> [UInt8] { Array("sha-256=:\(Base64.encode(digest)):".utf8) }

  public static func value(of body: UnsafeRawBufferPointer) -> [UInt8] {
    value(sha256: Digest.of(body))
  }
}

/// Hashes a body that arrives in pieces. Only one thread may use it.
public final class BodyDigests {
  private var running: [ContentDigest.Algorithm: RunningDigest]
  private var finished: [ContentDigest.Algorithm: [UInt8]] = [:]

  public init(_ algorithms: [ContentDigest.Algorithm]) {
    running = Dictionary(algorithms.map { ($0, RunningDigest($0.function)) }, uniquingKeysWith: { first, _ in first })
  }

  public func update(_ bytes: UnsafeRawBufferPointer) { for digest in running.values { digest.update(bytes) } }

  /// Returns the digest of all bytes; nil if it was not asked for. No bytes may follow.
  public func digest(_ algorithm: ContentDigest.Algorithm) -> [UInt8]? {
    if let known = finished[algorithm] { return known }
    guard let digest = running.removeValue(forKey: algorithm)?.finish() else { return nil }
    finished[algorithm] = digest
    return digest
  }
}
