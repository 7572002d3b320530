import Bytes
import Crypto
import Glibc

/// What a service's sidecar and the keeper of the identities both know: 256 random bits. A token admits the first key that
/// is shown with it, and no other one.
package struct JoinToken: Sendable {
  private let key: MACKey
  /// What the keeper remembers the token by. It doesn't reveal the token.
  let digest: String

  /// `text`: 64 hexadecimal digits.
  package init?(_ text: String) {
    guard text.utf8.count == 64, let bytes = try? Hex.decode(text),
      let key = MACKey(.hmacSHA256, SecretBytes(bytes))
    else { return nil }
    self.key = key
    digest = Hex.encode(Digest.of(bytes))
  }

  /// Returns a new token; nil when the system gives no random bytes.
  package static func make() -> String? { SystemRandom.bytes(32).map { Hex.encode($0) } }

  package static let variable = "SALLYPORT_JOIN"

  /// Reads `NAME=TOKEN NAME=TOKEN` from the environment, and removes it there.
  package static func ofEnvironment() throws(AuthorityError) -> [String: JoinToken] {
    let text = getenv(variable).map { String(cString: $0) } ?? ""
    unsetenv(variable)
    return try all(in: text)
  }

  static func all(in text: String) throws(AuthorityError) -> [String: JoinToken] {
    var tokens: [String: JoinToken] = [:]
    for word in text.split(separator: " ") {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2, ServiceIdentities.isName(parts[0]), let token = JoinToken(String(parts[1])),
        tokens.updateValue(token, forKey: String(parts[0])) == nil
      else {
        throw AuthorityError(
          "\(variable) has \"\(parts[0].prefix(40))\" twice, or without a token of 64 hexadecimal digits",
          hint: "expected NAME=TOKEN, as in the output of `sallyport compose override`")
      }
    }
    guard !tokens.isEmpty else {
      throw AuthorityError(
        "\(variable) is empty", hint: "expected NAME=TOKEN, as in the output of `sallyport compose override`")
    }
    return tokens
  }

  /// Returns the code of a message, as hexadecimal digits.
  fileprivate func code(of bytes: ArraySlice<UInt8>) -> [UInt8] {
    var code = key.begin()
    bytes.withUnsafeBytes { code.add($0) }
    return Array(Hex.encode(code.finish()).utf8)
  }
}

/// A datagram between a sidecar and the keeper: texts, each with a NUL behind it, and a code of them by the service's token.
///
/// Nothing in it is secret. The question has a request that the sidecar's key has signed, and the answer has certificates and
/// the list. The code says that a question comes from the sidecar, and that an answer is the keeper's to this very question.
package enum JoinMessage {
  package enum Kind: String {
    /// The name, a number used once, the serial of the certificate that the sidecar has, and its request (PKCS#10, Base64).
    case question = "sallyport-question-1"
    /// The name, the question's number, a certificate, the authority's, the revocation list, and what else there is to say.
    case answer = "sallyport-answer-1"

    fileprivate var count: Int { self == .question ? 5 : 7 }
  }

  /// A datagram has at most 65,507 bytes.
  package static let mostBytes = 65_000

  static func seal(_ kind: Kind, _ texts: [String], by token: JoinToken) -> [UInt8] {
    var bytes: [UInt8] = []
    for text in [kind.rawValue] + texts { bytes += Array(text.utf8) + [0] }
    return bytes + token.code(of: bytes[...])
  }

  /// Returns the texts; nil unless the code is of the token that `tokens` has for the name.
  static func open(_ bytes: [UInt8], _ kind: Kind, _ tokens: [String: JoinToken]) -> [String]? {
    guard bytes.count <= mostBytes, let end = bytes.lastIndex(of: 0) else { return nil }
    let texts = bytes[..<end].split(separator: 0, omittingEmptySubsequences: false).map {
      String(decoding: $0, as: UTF8.self)
    }
    guard texts.count == kind.count, texts[0] == kind.rawValue, let token = tokens[texts[1]] else { return nil }
    let code = token.code(of: bytes[...end])
    // Digests are compared, so that the time of the comparison says nothing of the code. OpenSSL may fail to make one.
    guard !code.isEmpty, Digest.of(code) == Digest.of(Array(bytes[(end + 1)...])) else { return nil }
    return Array(texts.dropFirst())
  }
}
