import Crypto

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
    let digest = Digest.of(scope + value)
    var key = begin
    key.reserveCapacity(begin.count + 40)
    for byte in digest.prefix(20) {
      key.append(Self.digit(byte >> 4))
      key.append(Self.digit(byte & 15))
    }
    return key
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}
