package import Crypto
import Bytes
import Glibc

/// A certificate's common name, which is also the name of the files it is written to.
package struct CommonName: Sendable, Hashable, CustomStringConvertible {
  package let text: String

  /// The largest number of characters (RFC 5280 appendix A, ub-common-name).
  private static let limit = 64

  /// Accepts 1 to 64 characters, no `/`, no control character, no `.` at the start.
  package init(_ text: String) throws(AuthorityError) {
    guard (1...Self.limit).contains(text.unicodeScalars.count),
      text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control && $0 != "/" }), !text.hasPrefix(".")
    else {
      throw AuthorityError(
        "\"\(InspectionPage.visible(text))\" can't be a certificate's name; expected 1 to \(Self.limit) characters, without '/' and control "
          + "characters, not beginning with '.'")
    }
    self.text = text
  }

  /// Takes the octets of a user's name in a password file.
  init(bytes: [UInt8]) throws(AuthorityError) {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw AuthorityError("a user's name that is not UTF-8 can't be a certificate's name")
    }
    try self.init(text)
  }

  package var description: String { text }
}

/// A certificate's purpose, and with it its content and lifetime.
package struct CertificateProfile: Sendable {
  package enum Role: Sendable, Hashable { case client, server }

  package let role: Role
  package let name: CommonName
  package let names: [CertificateBuilder.AlternativeName]
  package let key: PrivateKey.Kind
  /// A shorter lifetime than the role's; nil for the role's.
  package let days: Int64?
  /// Seconds, in place of days and from now on; nil for the days.
  package let lifetime: Int64?

  package static let clientDays: Int64 = 365

  package init(
    _ role: Role, _ name: CommonName, names: [CertificateBuilder.AlternativeName] = [],
    key: PrivateKey.Kind = .p256, days: Int64? = nil, lifetime: Int64? = nil
  ) throws(AuthorityError) {
    self.role = role
    self.name = name
    self.names = names.isEmpty && role == .server ? [try Self.serverName(name)] : names
    self.key = key
    self.days = days
    self.lifetime = lifetime
    if let days, days < 1 || days > AuthorityStore.authorityDays {
      throw AuthorityError("\(days) days; expected 1 to \(AuthorityStore.authorityDays)")
    }
  }

  /// Returns the longest lifetime in days of a server certificate issued at this time: 398 days until 2026-03-15, 200
  /// until 2027-03-15, 100 until 2029-03-15, then 47. The source is the CA/Browser Forum's Baseline Requirements §6.3.2
  /// (ballot SC-081v3). Platforms refuse certificates with a longer lifetime.
  package static func serverDays(at now: Int64) -> Int64 {
    switch now {
    case ..<1_773_532_800: 398
    case ..<1_805_068_800: 200
    case ..<1_868_227_200: 100
    default: 47
    }
  }

  /// Describes the certificate except for its key. It is valid from an hour before `now`, for clocks that are behind,
  /// and never longer than the CA.
  func builder(at now: Int64, authorityEnds: Int64) -> CertificateBuilder {
    let limit = role == .server ? Self.serverDays(at: now) : days ?? Self.clientDays
    let length = min(days ?? limit, limit)
    var builder = CertificateBuilder(
      commonName: name.text, .leaf([role == .server ? .serverAuth : .clientAuth]), names: names)
    builder.notBefore = now - 3600
    // notAfter is inclusive, so its second belongs to the lifetime.
    let (end, isLate) = now.addingReportingOverflow(max(1, lifetime ?? 1) - 1)
    builder.notAfter =
      lifetime == nil || isLate ? builder.notBefore + length * 86_400 - 1 : min(end, now + limit * 86_400 - 1)
    builder.notAfter = min(builder.notAfter, authorityEnds)
    return builder
  }

  /// The name of a server without alternative names: its common name, if that is a DNS name or an IP address.
  private static func serverName(_ name: CommonName) throws(AuthorityError) -> CertificateBuilder.AlternativeName {
    guard let made = CertificateBuilder.AlternativeName(address: name.text) ?? .init(host: name.text) else {
      throw AuthorityError(
        "\"\(name)\" is neither a DNS name nor an IP address", hint: "say how clients call it: --san DNS:…,IP:…")
    }
    return made
  }
}

extension CertificateBuilder.AlternativeName {
  /// `DNS:localhost,IP:127.0.0.1,URI:spiffe://…,email:a@b`.
  package static func list(_ text: String) throws(AuthorityError) -> [CertificateBuilder.AlternativeName] {
    var names: [CertificateBuilder.AlternativeName] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      guard let colon = part.firstIndex(of: ":"), let name = Self(part[..<colon], part[part.index(after: colon)...])
      else {
        throw AuthorityError(
          "\"\(part)\" is no name for a certificate",
          hint: "expected DNS:NAME, IP:ADDRESS, URI:URI or email:ADDRESS, separated by commas")
      }
      names.append(name)
    }
    return names
  }

  init?(_ kind: Substring, _ value: Substring) {
    let isText = !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    guard isText else { return nil }
    let made: CertificateBuilder.AlternativeName? =
      switch kind.lowercased() {
      case "dns": .init(host: String(value))
      case "ip": .init(address: String(value))
      case "uri": value.contains(":") ? .uri(String(value)) : nil
      case "email": value.contains("@") ? .email(String(value)) : nil
      default: nil
      }
    guard let made else { return nil }
    self = made
  }

  /// An IP address in usual notation.
  init?(address text: String) {
    var octets = [UInt8](repeating: 0, count: 16)
    guard inet_pton(AF_INET6, text, &octets) == 1 || inet_pton(AF_INET, text, &octets) == 1 else { return nil }
    self = .ip(text)
  }

  /// A DNS name (RFC 1034 §3.5, underscores too), whose first label may be `*`.
  init?(host text: String) {
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    let isName = labels.enumerated().allSatisfy { place, label in
      if place == 0 && label == "*" && labels.count > 1 { return true }
      return (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
        && label.utf8.allSatisfy { ASCII.isDigit($0) || ASCII.lower($0) &- 97 < 26 || $0 == 45 || $0 == 95 }
    }
    guard isName, text.utf8.count <= 253 else { return nil }
    self = .dns(text)
  }
}
