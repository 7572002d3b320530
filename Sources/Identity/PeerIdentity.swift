import Bytes
import Crypto
public import TLS

/// A client's identity for access rules: the values of its verified chain's leaf, in the form in which they are
/// compared.
///
/// Only a verified chain gives an identity. An unverified leaf (`optional_no_ca`) does not, nor do certificates that
/// the client merely sent with it (CVE-2023-2422). A pin alone gives the two hashes: who has the pinned key can write any
/// name into a certificate for it.
public struct PeerIdentity: Sendable {
  /// A certificate's values for one key.
  struct Values: Sendable {
    /// Why a key's values can't be judged. No rule that reads the key lets such a client in.
    enum ParseError: String, Sendable {
      /// A value holds a control character or can't be read, so it may not be what it looks like (CVE-2025-66220).
      case unreadable = "has a control character, or is malformed"
      /// The certificate has several values where one must name the client: programs differ in which of them they use.
      case ambiguous = "is ambiguous: the certificate has several"
      /// Only a pin vouches for the client, and not for this value.
      case unproven = "is the client's own word: a pin alone vouches for it"
    }

    /// Empty with the fault `ambiguous`: none of the values is the client's name.
    var all: [[UInt8]]
    var fault: ParseError?

    init(_ all: [[UInt8]], isReadable: Bool = true) {
      self.all = all
      fault = isReadable && !all.contains { $0.contains { $0 < 0x20 || $0 == 0x7F } } ? nil : .unreadable
    }

    init(_ name: CommonNameReading) {
      switch name {
      case .absent: self.init([])
      case .one(let name): self.init([name])
      case .ambiguous(let names):
        self.init([])
        fault = names.count > 1 ? .ambiguous : .unreadable
      }
    }

    init(octets: [UInt8]) { all = [octets] }

    private init(unproven: Void) { (all, fault) = ([], .unproven) }
    /// A value that nobody vouches for. No rule reads it.
    static let unproven = Values(unproven: ())
  }

  /// For messages: the subject as RFC 2253 has it, or the pin of the key if nobody vouches for the subject.
  package let subject: String
  /// One for each key, by its `place`.
  private let values: [Values]

  public init(_ client: VerifiedClient) {
    switch client {
    case .chain(let chain): self.init(leaf: chain.leaf)
    case .pin(let leaf): self.init(pinned: leaf)
    }
  }

  /// The identity of a client for which only a pin vouches.
  private init(pinned leaf: Certificate) {
    subject = Pin.spelling(publicKeyDigest: leaf.spkiSHA256)
    values = IdentityKey.allCases.map { key in
      switch key {
      case .fingerprint: Values(octets: leaf.sha256)
      case .spki: Values(octets: leaf.spkiSHA256)
      case .cn, .o, .ou, .dns, .email, .uri, .ip, .serial, .issuer: .unproven
      }
    }
  }

  init(leaf: Certificate) {
    let names = leaf.subjectAltNames
    let subject = leaf.subject
    func alternatives(_ kind: [SubjectAlternativeName], _ value: (SubjectAlternativeName) -> [UInt8]) -> Values {
      Values(kind.map(value), isReadable: !names.isMalformed && kind.allSatisfy(\.isWellFormed))
    }
    self.subject = subject.rfc2253
    self.values = IdentityKey.allCases.map { key in
      switch key {
      case .cn: Values(subject.commonName)
      case .o: Values(subject.organizations)
      case .ou: Values(subject.organizationalUnits)
      case .dns: alternatives(names.dns) { Fold.all($0.bytes) }
      case .email: alternatives(names.emails) { Fold.domain($0.bytes) }
      case .uri: alternatives(names.uris) { $0.bytes }
      case .ip: alternatives(names.ips) { Array($0.description.utf8) }
      case .serial: Values([Array(leaf.serial.utf8)])
      case .issuer: Values([Array(leaf.issuer.rfc2253.utf8)])
      case .fingerprint: Values(octets: leaf.sha256)
      case .spki: Values(octets: leaf.spkiSHA256)
      }
    }
  }

  subscript(key: IdentityKey) -> Values {
    values.indices.contains(key.place) ? values[key.place] : Values([], isReadable: false)
  }
}

/// Folds letters that are compared without case: DNS names, and the domain of an email address.
enum Fold {
  static func all(_ text: some Sequence<UInt8>) -> [UInt8] { text.map { ASCII.lower($0) } }

  static func domain(_ address: [UInt8]) -> [UInt8] {
    guard let at = address.lastIndex(of: UInt8(ascii: "@")) else { return address }
    return address[...at] + all(address[at...].dropFirst())
  }
}
