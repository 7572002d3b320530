package import Crypto

/// `index.txt`, the register of `openssl ca`: one line for each certificate, six fields separated by tabs.
///
///     V ⇥ 271121093000Z ⇥                            ⇥ SERIAL ⇥ unknown ⇥ /CN=alice
///     R ⇥ 271121093000Z ⇥ 261122080000Z,keyCompromise ⇥ SERIAL ⇥ unknown ⇥ /CN=bob
///
/// A faulty line is an error and never skipped: a certificate that is missing from the index can't be revoked.
package struct AuthorityIndex: Sendable, Equatable {
  package struct Entry: Sendable, Hashable {
    package var state: State
    /// Seconds since 1970.
    package let notAfter: Int64
    /// In the form of `Certificate.serial`.
    package let serial: String
    /// The certificate's file name, or `unknown`. sallyport does not use it.
    package let file: String
    /// OpenSSL's one-line form, ASCII: `/C=SE/CN=name`.
    package fileprivate(set) var subject: String
  }

  package enum State: Sendable, Hashable {
    /// The certificate may have expired: compare `notAfter` with the clock.
    case valid
    /// Marked as expired by `openssl ca -updatedb`.
    case expired
    case revoked(Revocation)
  }

  package struct Revocation: Sendable, Hashable {
    /// Seconds since 1970.
    package let date: Int64
    package let reason: RevocationList.Reason?
    /// The text of the file: date, reason, and what belongs to the reason.
    let text: String

    package init(date: Int64) {
      self.date = date
      reason = nil
      text = AuthorityTime.inIndex(date)
    }

    /// Returns nil for a malformed text.
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

    /// The names of `openssl ca -crl_reason` and related options. removeFromCRL gives no reason that a CRL may contain.
    private static let reasons: [String: RevocationList.Reason?] = [
      "unspecified": .unspecified, "keycompromise": .keyCompromise, "cacompromise": .authorityCompromise,
      "affiliationchanged": .affiliationChanged, "superseded": .superseded,
      "cessationofoperation": .cessationOfOperation, "certificatehold": .certificateHold,
      "holdinstruction": .certificateHold, "keytime": .keyCompromise, "cakeytime": .authorityCompromise,
      "removefromcrl": RevocationList.Reason?.none,
    ]
  }

  /// In the order of the file. Serials are unique.
  package private(set) var entries: [Entry] = []
  private var places: [String: Int] = [:]

  package init() {}

  package subscript(serial serial: String) -> Entry? { places[serial].map { entries[$0] } }

  /// Adds an entry. Returns false, and changes nothing, when its serial is present already.
  @discardableResult
  package mutating func add(_ entry: Entry) -> Bool {
    guard places[entry.serial] == nil else { return false }
    places[entry.serial] = entries.count
    entries.append(entry)
    return true
  }

  /// Returns false when the certificate is missing or revoked already: the first date stays.
  @discardableResult
  package mutating func revoke(_ serial: String, _ revocation: Revocation) -> Bool {
    guard let place = places[serial] else { return false }
    if case .revoked = entries[place].state { return false }
    entries[place].state = .revoked(revocation)
    return true
  }

  /// Replaces the subject of an entry whose line was truncated.
  mutating func rename(_ serial: String, _ subject: String) {
    if let place = places[serial] { entries[place].subject = subject }
  }

  /// The entries that a CRL must contain.
  package var revoked: [RevocationList.Entry] {
    entries.compactMap { entry in
      guard case .revoked(let revocation) = entry.state else { return nil }
      return RevocationList.Entry(serial: entry.serial, date: revocation.date, reason: revocation.reason)
    }
  }

  package static func == (left: AuthorityIndex, right: AuthorityIndex) -> Bool { left.entries == right.entries }
}

extension AuthorityIndex.Entry {
  /// Makes the entry of a newly issued certificate. Returns nil when its end can't be read: the index can't represent
  /// that, and no verification accepts such a certificate.
  package init?(_ certificate: Certificate) {
    guard let notAfter = certificate.notAfter.seconds else { return nil }
    self.init(
      state: .valid, notAfter: notAfter, serial: certificate.serial, file: "unknown",
      subject: certificate.subject.legacy)
  }
}
