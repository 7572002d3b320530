import Bytes
import Crypto
public import TLS

/// Who a client is, as far as rules ask: what the leaf of its verified chain says, each value as it is compared.
///
/// Made from a verified chain and nothing else: neither a leaf that nobody verified (`optional_no_ca`) nor certificates
/// that were merely sent beside it say who somebody is (CVE-2023-2422).
public struct PeerIdentity: Sendable {
  /// What a certificate has under one key.
  struct Values: Sendable {
    /// Why nobody may be judged by a key's values. Whoever has one gets in by no rule that reads the key.
    enum Fault: String, Sendable {
      /// A value holds a control character, or can't be read: it may not be what it looks like (CVE-2025-66220).
      case unreadable = "has a control character, or is malformed"
      /// Several values where one names the client: programs differ in which of them they take.
      case ambiguous = "is ambiguous: the certificate has several"
    }

    /// Empty beside a fault of `ambiguous`: none of them is the client's name.
    var all: [[UInt8]]
    var fault: Fault?

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
  }

  /// RFC 2253, for messages.
  package let subject: String
  private let values: [IdentityKey: Values]

  public init(_ chain: VerifiedChain) { self.init(leaf: chain.leaf) }

  init(leaf: Certificate) {
    let names = leaf.subjectAltNames
    let subject = leaf.subject
    func alternatives(_ kind: [SubjectAlternativeName], _ value: (SubjectAlternativeName) -> [UInt8]) -> Values {
      Values(kind.map(value), isReadable: !names.isMalformed && kind.allSatisfy(\.isWellFormed))
    }
    self.subject = subject.rfc2253
    self.values = [
      .cn: Values(subject.commonName), .o: Values(subject.organizations), .ou: Values(subject.organizationalUnits),
      .dns: alternatives(names.dns) { Fold.all($0.bytes) },
      .email: alternatives(names.emails) { Fold.domain($0.bytes) },
      .uri: alternatives(names.uris) { $0.bytes },
      .ip: alternatives(names.ips) { Array($0.description.utf8) },
      .serial: Values([Array(leaf.serial.utf8)]), .issuer: Values([Array(leaf.issuer.rfc2253.utf8)]),
      .fingerprint: Values(octets: leaf.sha256), .spki: Values(octets: leaf.spkiSHA256),
    ]
  }

  subscript(key: IdentityKey) -> Values { values[key] ?? Values([], isReadable: false) }
}

/// Letters that are compared without case: DNS names, and the domain of an address of email.
enum Fold {
  static func all(_ text: some Sequence<UInt8>) -> [UInt8] { text.map { ASCII.lower($0) } }

  static func domain(_ address: [UInt8]) -> [UInt8] {
    guard let at = address.lastIndex(of: UInt8(ascii: "@")) else { return address }
    return address[...at] + all(address[at...].dropFirst())
  }
}
