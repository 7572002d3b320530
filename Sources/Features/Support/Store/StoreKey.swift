import Bytes
import Crypto
import Forward
import Traffic

/// The names of what sallyport keeps in a store: `sallyport:KIND:DIGEST`. What a client sent stands in none of them.
struct StoreKey {
  static let prefix = "sallyport:"

  private let begin: [UInt8]
  private let scope: [UInt8]

  /// `scope`: what the values belong to, such as a zone.
  init(_ kind: String, _ scope: String) {
    begin = Array("\(Self.prefix)\(kind):".utf8)
    self.scope = Array(scope.utf8) + [0]
  }

  static func of(_ kind: String, _ scope: String, _ value: [UInt8]) -> [UInt8] { StoreKey(kind, scope)(value) }

  func callAsFunction(_ value: [UInt8]) -> [UInt8] {
    var key = ByteBuffer(capacity: begin.count + 40)
    key.append(begin)
    Digest.of(scope + value).prefix(20).withUnsafeBytes { Hex.encode($0, into: &key) }
    return Array(key.readable)
  }
}
