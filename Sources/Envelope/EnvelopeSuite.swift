public import Crypto

/// The algorithms of a message envelope: the cipher, and what authenticates the plain body.
public struct EnvelopeSuite: Sendable, Hashable {
  public let cipher: Cipher
  /// nil: the cipher's own tag authenticates, and there is no `mac` member.
  public let mac: EnvelopeMAC?

  /// CBC without a MAC authenticates nothing.
  public struct Unauthenticated: Error {}

  public init(_ cipher: Cipher, _ mac: EnvelopeMAC?) throws(Unauthenticated) {
    guard mac != nil || cipher.isAuthenticated else { throw Unauthenticated() }
    self.cipher = cipher
    self.mac = mac
  }

  /// The suite for responses, whose whole body is authenticated.
  var ofResponses: EnvelopeSuite {
    EnvelopeSuite(trusted: cipher, mac.map { EnvelopeMAC($0.algorithm, over: .payload) })
  }

  private init(trusted cipher: Cipher, _ mac: EnvelopeMAC?) {
    self.cipher = cipher
    self.mac = mac
  }
}

/// `message_envelope_mac`.
public struct EnvelopeMAC: Sendable, Hashable {
  public enum Scope: Sendable, Hashable {
    /// The exact bytes of the plain body.
    case payload
    /// The values of these members of the plain JSON object, joined in this order.
    case fields([[UInt8]])
  }

  public var algorithm: MACAlgorithm
  public var scope: Scope

  public init(_ algorithm: MACAlgorithm, over scope: Scope) {
    self.algorithm = algorithm
    self.scope = scope
  }
}

/// Why words are not a valid `message_envelope_mac`.
public struct EnvelopeMACError: Error, Sendable, Hashable {
  public let reason: String
  public let hint: String
  /// The index of the faulty word.
  public let word: Int
}

extension EnvelopeMAC {
  /// Parses `hmac-sha256 payload`, `hmac-sha1 fields NAME …`; nil for `none`. An algorithm alone means payload.
  public static func parse(_ words: [String]) throws(EnvelopeMACError) -> EnvelopeMAC? {
    let usage =
      "none, or one of \(MACAlgorithm.allCases.map(\.rawValue).joined(separator: " and ")), then payload, or fields NAME …"
    func refused(_ word: Int, _ reason: String) -> EnvelopeMACError {
      EnvelopeMACError(reason: reason, hint: usage, word: word)
    }
    let first = words.first ?? ""
    if first == "none" {
      guard words.count == 1 else { throw refused(1, "\"none\" is followed by \"\(words[1])\"") }
      return nil
    }
    guard let algorithm = MACAlgorithm(rawValue: first) else { throw refused(0, "\"\(first)\" is not a supported MAC") }
    switch words.dropFirst().first {
    case nil, "payload":
      guard words.count <= 2 else { throw refused(2, "\"payload\" is followed by \"\(words[2])\"") }
      return EnvelopeMAC(algorithm, over: .payload)
    case "fields":
      let names = Array(words.dropFirst(2))
      guard !names.isEmpty else { throw refused(1, "\"fields\" names no field") }
      for (index, name) in names.enumerated() where names[..<index].contains(name) {
        throw refused(index + 2, "the field \"\(name)\" is named twice")
      }
      return EnvelopeMAC(algorithm, over: .fields(names.map { Array($0.utf8) }))
    case let other?: throw refused(1, "\"\(other)\" is not what a MAC can cover")
    }
  }
}
