package import Crypto
import Enrolment
package import Features
import Observability
import TLS

/// One chain of a record, with all of its visits.
package struct RecordedClient: Sendable {
  /// As the client sent them, the leaf first.
  package let certificates: [Certificate]
  package let visits: [(key: RecordedVisit.Key, visit: RecordedVisit)]

  package var leaf: Certificate { certificates[0] }
  package var last: Int64 { visits.map(\.visit.last).max() ?? 0 }
  package var first: Int64 { visits.map(\.visit.first).min() ?? 0 }
  package var count: Int { visits.reduce(0) { $0 + $1.visit.count } }
  /// Somewhere, the last visit was let in.
  package var isLetIn: Bool { visits.contains { $0.visit.verdict.isLetIn } }

  /// The name of the certificate for a person.
  package var name: String { leaf.subject.rfc2253 }

  /// Each chain that can be read, by the name and then by the last visit, and how many can't.
  package static func all(of record: RecordedClients) -> (clients: [RecordedClient], unreadable: Int) {
    let chains = Dictionary(grouping: record.visits.map { (key: $0.key, visit: $0.value) }, by: { $0.key.chain })
    var unreadable = 0
    let clients = chains.values.compactMap { visits -> RecordedClient? in
      let certificates = record.chain(visits[0].key).compactMap { try? Certificate(der: $0) }
      guard !certificates.isEmpty, certificates.count == visits[0].key.chain.count else {
        unreadable += 1
        return nil
      }
      return RecordedClient(
        certificates: certificates,
        visits: visits.sorted {
          ($0.visit.last, $0.key.listener, $0.key.name) > ($1.visit.last, $1.key.listener, $1.key.name)
        })
    }
    return (clients.map { ($0.name, $0) }.sorted { ($0.0, $0.1.last) < ($1.0, $1.1.last) }.map(\.1), unreadable)
  }

  /// The fronts that it came behind, each once.
  var fronts: [String] { Set(visits.map(\.key.front)).filter { !$0.isEmpty }.sorted() }

  /// `CN=alice, last visit 2026-11-30, at a.test (0.0.0.0:443)`
  package var words: String {
    let place = visits.first.map { key, visit in
      " at \(key.name.isEmpty ? visit.server.isEmpty ? "" : "\(visit.server) " : "\(key.name) ")(\(key.listener))"
        + (key.front.isEmpty ? "" : ", behind \(key.front)")
    }
    return "\(name), last visit \(Day.text(last))\(place ?? "")"
  }

  /// What is old or weak about the client's certificate and its last handshake.
  package var weaknesses: [String] {
    var found: [String] = []
    let hashes = certificates.filter { !$0.isSelfIssued }.map(\.signatureHash)
    for old in ["MD5", "SHA1"] where hashes.contains(old) {
      found.append("a signature by \(old == "SHA1" ? "SHA-1" : old)")
    }
    if leaf.keyKind.isWeak { found.append("a weak key (\(leaf.keyKind))") }
    if !leaf.allowsClients { found.append("no clientAuth in its extended key usage") }
    if !leaf.isSelfIssued, leaf.authorityKeyIdentifier == nil { found.append("no authority key identifier") }
    if let version = visits.first?.visit.handshake.version, !version.isEmpty, version != "TLSv1.3" {
      found.append("speaks \(version)")
    }
    return found
  }
}

/// Days, as a person writes them.
package enum Day {
  /// `2026-11-30`
  static func text(_ moment: Int64) -> String { String(AuthorityTime.rfc3339(moment).prefix(10)) }

  /// The first second of a day `2027-03-15`, or the second of `2027-03-15T12:00:00Z`; nil for other texts.
  package static func moment(_ text: String) -> Int64? {
    var parts = text
    if parts.utf8.count == 10 { parts += "T00:00:00Z" }
    let bytes = Array(parts.utf8)
    guard bytes.count == 20 else { return nil }
    func number(_ range: Range<Int>) -> Int64? {
      bytes[range].reduce(Int64?(0)) { sum, byte in
        guard let sum, byte &- 0x30 < 10 else { return nil }
        return sum * 10 + Int64(byte - 0x30)
      }
    }
    guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), let hour = number(11..<13),
      let minute = number(14..<16), let second = number(17..<19), (1970...9999).contains(year),
      (1...12).contains(month),
      (1...31).contains(day)
    else { return nil }
    // Days from the civil calendar: years begin with March, so that a leap day ends one.
    let shifted = month <= 2 ? year - 1 : year
    let (era, months) = (shifted / 400, (month + 9) % 12)
    let inEra = shifted - era * 400
    let ofYear = (153 * months + 2) / 5 + day - 1
    let days = era * 146_097 + inEra * 365 + inEra / 4 - inEra / 100 + ofYear - 719_468
    let moment = days * 86_400 + hour * 3600 + minute * 60 + second
    // Whatever is no time, such as the 31st of February, has another text.
    return AuthorityTime.rfc3339(moment) == parts ? moment : nil
  }
}
