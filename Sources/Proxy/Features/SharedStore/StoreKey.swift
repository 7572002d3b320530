import Crypto

/// The names of what sallyport keeps in a store: `sallyport:KIND:DIGEST`. What a client sent stands in none of them.
enum StoreKey {
  static let prefix = "sallyport:"

  /// `scope`: what the value belongs to, such as a zone.
  static func of(_ kind: String, _ scope: String, _ value: [UInt8]) -> [UInt8] {
    let digest = Digest.of(Array(scope.utf8) + [0] + value)
    var key = Array("\(prefix)\(kind):".utf8)
    for byte in digest.prefix(20) {
      key.append(hexadecimal[Int(byte >> 4)])
      key.append(hexadecimal[Int(byte & 15)])
    }
    return key
  }

  private static let hexadecimal = Array("0123456789abcdef".utf8)
}
