import Bytes

/// Why a token isn't accepted, for the log only.
package enum TokenFault: Error, Sendable, Hashable, CustomStringConvertible {
  case tooLong(Int)
  /// Not three parts: encrypted tokens have five.
  case parts(Int)
  case encoding(part: String)
  case json(part: String, String)
  case member(String, expected: String)
  /// What a header demands that sallyport doesn't do, so that the token may mean something else than it seems to.
  case unsupported(String)
  case algorithm(String)
  case unknownKey(String)
  /// The token names no key, and several could have signed it.
  case severalKeys(Int)
  case keyOfAnotherAlgorithm(String)
  case forged
  case noEnd
  case expired(seconds: Int64)
  case future(seconds: Int64)
  case issuer(String)
  case audience
  /// It names no certificate.
  case unbound
  /// It is bound by something that sallyport can't judge.
  case boundOtherwise
  case noCertificate
  case anotherCertificate

  package var description: String {
    switch self {
    case .tooLong(let count): "it has \(count) bytes, and \(WebToken.mostBytes) are the most"
    case .parts(let count): "it has \(count) parts; a signed token has 3"
    case .encoding(let part): "its \(part) is not base64url without padding"
    case .json(let part, let fault): "its \(part) is no JSON object: \(fault)"
    case .member(let name, let expected): "\(Self.shown(name)) is not \(expected)"
    case .unsupported(let name): "its header has \(Self.shown(name)), which sallyport does not take"
    case .algorithm(let name): "its alg is \(Self.shown(name)), and only EdDSA, ES256, RS256 and PS256 count"
    case .unknownKey(let id): "the key \(Self.shown(id)) is unknown"
    case .severalKeys(let count): "it names no key, and \(count) keys could have signed it"
    case .keyOfAnotherAlgorithm(let name): "its key does not sign by \(Self.shown(name))"
    case .forged: "it is not authentic"
    case .noEnd: "it has no exp"
    case .expired(let seconds): "it expired \(seconds) s ago"
    case .future(let seconds): "it begins in \(seconds) s"
    case .issuer(let name): "its iss is \(Self.shown(name))"
    case .audience: "its aud names somebody else"
    case .unbound: "it is bound to no certificate (cnf with x5t#S256)"
    case .boundOtherwise: "its cnf has more than x5t#S256, or something else"
    case .noCertificate: "it is bound to a certificate, and the client has shown none that counts"
    case .anotherCertificate: "it is bound to another certificate than the client's"
    }
  }

  private static func shown(_ text: String) -> String {
    let printable = text.unicodeScalars.prefix(200).map { (0x20..<0x7F).contains($0.value) && $0 != "\"" ? $0 : "?" }
    var shown = String.UnicodeScalarView()
    shown.append(contentsOf: printable)
    return "\"\(String(shown))\""
  }
}
