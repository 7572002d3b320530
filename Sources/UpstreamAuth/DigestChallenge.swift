package import Crypto

/// A Digest challenge that can be answered (RFC 7616 §3.3): parsed, bounded, with a supported algorithm.
package struct DigestChallenge: Sendable, Hashable {
  package enum Algorithm: String, Sendable, Hashable, CaseIterable {
    case md5 = "MD5"
    case md5Session = "MD5-sess"
    case sha256 = "SHA-256"
    case sha256Session = "SHA-256-sess"

    var isSession: Bool { self == .md5Session || self == .sha256Session }
    package var hash: AuthenticationDigest { self == .md5 || self == .md5Session ? .md5 : .sha256 }
  }

  /// What an answer protects. A challenge without qop is one of RFC 2069.
  package enum Protection: String, Sendable, Hashable {
    case request = "auth"
    /// The request and its body.
    case body = "auth-int"
  }

  /// Whether an answer must hash the body: `auth` is preferred, which doesn't.
  package var hashesBody: Bool { !protections.contains(.request) && protections.contains(.body) }

  package var realm: [UInt8]
  package var nonce: [UInt8]
  package var opaque: [UInt8]?
  package var algorithm: Algorithm
  /// Whether the challenge names the algorithm; then the answer does, too.
  package var saysAlgorithm: Bool
  /// Empty: RFC 2069.
  package var protections: Set<Protection>
  package var isStale: Bool
  package var isUTF8: Bool
  package var hashesUser: Bool

  /// The largest length of each value: every request sends them back.
  private static let valueLimit = 4096

  /// Returns nil for a challenge that can't be answered.
  init?(_ challenge: Challenge) {
    guard challenge.scheme == "digest", let realm = challenge["realm"], let nonce = challenge["nonce"],
      !nonce.isEmpty, [realm, nonce, challenge["opaque"] ?? []].allSatisfy({ $0.count <= Self.valueLimit })
    else { return nil }
    let named = challenge["algorithm"].map(Self.text)
    guard
      let algorithm = named == nil
        ? .md5 : Algorithm.allCases.first(where: { $0.rawValue.lowercased() == named })
    else { return nil }
    protections = []
    if let options = challenge["qop"] {
      protections = Set(
        Self.text(options).split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" })
          .compactMap { Protection(rawValue: String($0)) })
      // The challenge demands a protection that is not supported.
      if protections.isEmpty { return nil }
    }
    self.realm = realm
    self.nonce = nonce
    self.opaque = challenge["opaque"]
    self.algorithm = algorithm
    saysAlgorithm = named != nil
    isStale = challenge["stale"].map(Self.text) == "true"
    isUTF8 = challenge["charset"].map(Self.text) == "utf-8"
    hashesUser = challenge["userhash"].map(Self.text) == "true"
  }

  /// Makes a challenge from a store's values.
  init(
    realm: [UInt8], nonce: [UInt8], opaque: [UInt8]?, algorithm: Algorithm, saysAlgorithm: Bool,
    protections: Set<Protection>, isUTF8: Bool, hashesUser: Bool
  ) {
    self.realm = realm
    self.nonce = nonce
    self.opaque = opaque
    self.algorithm = algorithm
    self.saysAlgorithm = saysAlgorithm
    self.protections = protections
    self.isStale = false
    self.isUTF8 = isUTF8
    self.hashesUser = hashesUser
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self).lowercased() }
}

/// Returns `nextnonce` of Authentication-Info (RFC 7616 §3.5); nil without one.
package enum AuthenticationInfo {
  package static func nextNonce(_ line: [UInt8]) -> [UInt8]? {
    guard let parameters = ChallengeParser.parameters(line),
      let nonce = parameters.first(where: { $0.name == "nextnonce" })?.value, !nonce.isEmpty, nonce.count <= 4096
    else { return nil }
    return nonce
  }
}
