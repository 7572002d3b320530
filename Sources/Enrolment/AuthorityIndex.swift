package import Crypto

/// `index.txt`, the register of `openssl ca`: a line a certificate, six fields parted by tabs.
///
///     V ⇥ 271121093000Z ⇥                            ⇥ SERIAL ⇥ unknown ⇥ /CN=alice
///     R ⇥ 271121093000Z ⇥ 261122080000Z,keyCompromise ⇥ SERIAL ⇥ unknown ⇥ /CN=bob
///
/// A faulty line is an error, never left out: a certificate that is forgotten can't be revoked.
package struct AuthorityIndex: Sendable, Equatable {
  package struct Entry: Sendable, Hashable {
    package var state: State
    /// Seconds since 1970.
    package let notAfter: Int64
    /// As `Certificate.serial` has it.
    package let serial: String
    /// Where the certificate is, or `unknown`; nobody reads it.
    package let file: String
    /// OpenSSL's one-line form, ASCII: `/C=SE/CN=name`.
    package fileprivate(set) var subject: String
  }

  package enum State: Sendable, Hashable {
    /// Whether it has ended is for the clock to say.
    case valid
    /// As `openssl ca -updatedb` has marked it.
    case expired
    case revoked(Revocation)
  }

  package struct Revocation: Sendable, Hashable {
    /// Seconds since 1970.
    package let date: Int64
    package let reason: RevocationList.Reason?
    /// As it stands in the file: date, reason, and what belongs to the reason.
    let text: String

    package init(date: Int64) {
      self.date = date
      reason = nil
      text = AuthorityTime.inIndex(date)
    }

    /// nil for what is none.
    init?(_ text: Substring) {
      let parts = text.split(separator: ",", omittingEmptySubsequences: false)
      guard let date = parts.first.flatMap({ AuthorityTime.seconds(inIndex: $0) }) else { return nil }
      self.date = date
      self.text = String(text)
      guard parts.count > 1 else {
        reason = nil
        return
      }
      guard let reason = Self.reasons[parts[1].lowercased()] else { return nil }
      self.reason = reason
    }

    /// The names of `openssl ca -crl_reason` and its relatives. removeFromCRL names no reason that may stand in a list.
    private static let reasons: [String: RevocationList.Reason?] = [
      "unspecified": .unspecified, "keycompromise": .keyCompromise, "cacompromise": .authorityCompromise,
      "affiliationchanged": .affiliationChanged, "superseded": .superseded,
      "cessationofoperation": .cessationOfOperation, "certificatehold": .certificateHold,
      "holdinstruction": .certificateHold, "keytime": .keyCompromise, "cakeytime": .authorityCompromise,
      "removefromcrl": RevocationList.Reason?.none,
    ]
  }

  /// In the order of the file. No two have the same serial.
  package private(set) var entries: [Entry] = []
  private var places: [String: Int] = [:]

  package init() {}

  package subscript(serial serial: String) -> Entry? { places[serial].map { entries[$0] } }

  /// False when its serial is there already, and then nothing changes.
  @discardableResult
  package mutating func add(_ entry: Entry) -> Bool {
    guard places[entry.serial] == nil else { return false }
    places[entry.serial] = entries.count
    entries.append(entry)
    return true
  }

  /// False when there is no such certificate, or it is revoked already: the first date stays.
  @discardableResult
  package mutating func revoke(_ serial: String, _ revocation: Revocation) -> Bool {
    guard let place = places[serial] else { return false }
    if case .revoked = entries[place].state { return false }
    entries[place].state = .revoked(revocation)
    return true
  }

  /// For a line that broke off.
  mutating func rename(_ serial: String, _ subject: String) {
    if let place = places[serial] { entries[place].subject = subject }
  }

  /// What a revocation list must name.
  package var revoked: [RevocationList.Entry] {
    entries.compactMap { entry in
      guard case .revoked(let revocation) = entry.state else { return nil }
      return RevocationList.Entry(serial: entry.serial, date: revocation.date, reason: revocation.reason)
    }
  }

  package static func == (left: AuthorityIndex, right: AuthorityIndex) -> Bool { left.entries == right.entries }
}

extension AuthorityIndex.Entry {
  /// A certificate that was just issued; nil for one whose end can't be read. The index has no way to write that, and no
  /// verification takes such a certificate.
  package init?(_ certificate: Certificate) {
    guard let notAfter = certificate.notAfter.seconds else { return nil }
    self.init(
      state: .valid, notAfter: notAfter, serial: certificate.serial, file: "unknown",
      subject: certificate.subject.legacy)
  }
}
