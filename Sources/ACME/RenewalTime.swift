import Bytes
package import Crypto
import JSON

/// When a certificate is to be renewed, and when an attempt that failed is made again. Pure: the moment and the dice come
/// from outside.
package enum RenewalTime {
  /// Seconds since 1970: when a third of the certificate's life is left, or half of one of at most ten days. `share`: from
  /// 0 to 1; spreads the certificates of many machines over a twentieth of their lives.
  package static func standard(notBefore: Int64, notAfter: Int64, share: Double) -> Int64 {
    let (life, isTooLong) = notAfter.subtractingReportingOverflow(notBefore)
    guard !isTooLong, life > 0 else { return notBefore }
    let left = life <= 864_000 ? life / 2 : life / 3
    return notAfter - left - Int64(Double(life / 20) * clamped(share))
  }

  /// A moment within the window that the server suggests (RFC 9773 §4.2).
  package static func within(_ window: RenewalWindow, share: Double) -> Int64 {
    window.start + Int64(Double(window.end - window.start) * clamped(share))
  }

  /// The last moment to begin a renewal, whatever the server suggests: when a tenth of the certificate's life is left.
  package static func latest(notBefore: Int64, notAfter: Int64) -> Int64 {
    let (life, isTooLong) = notAfter.subtractingReportingOverflow(notBefore)
    return isTooLong || life <= 0 ? notBefore : notAfter - life / 10
  }

  /// Seconds until the next attempt after so many failures: a minute, then twice as long each time up to six hours, a
  /// quarter more or less; at least what the server asked for, up to a day.
  package static func pause(failures: Int, retryAfter: Int64?, share: Double) -> Int64 {
    let doublings = min(max(failures, 1) - 1, 9)
    let base = min(Int64(60) << Int64(doublings), 21_600)
    let spread = Int64(Double(base) * (0.75 + 0.5 * clamped(share)))
    return max(spread, min(max(retryAfter ?? 0, 0), 86_400))
  }

  private static func clamped(_ share: Double) -> Double { min(max(share, 0), 1) }
}

/// When the server would have a certificate renewed (RFC 9773 §4).
package struct RenewalWindow: Sendable, Hashable {
  /// Seconds since 1970.
  package let start: Int64
  package let end: Int64
  /// Seconds until the server is to be asked again: a minute at least, a day at most.
  package let askAgain: Int64

  private static let standardAskAgain: Int64 = 21_600

  package init(_ response: ACMEResponse) throws(ACMEError) {
    let value = try response.object("the time of renewal")["suggestedWindow"]
    guard let start = value?["start"]?.text.flatMap({ InternetTime.seconds($0) }),
      let end = value?["end"]?.text.flatMap({ InternetTime.seconds($0) }), start < end
    else { throw ACMEError("the server's time of renewal is none") }
    self.start = start
    self.end = end
    askAgain = min(max(response.retryAfter ?? Self.standardAskAgain, 60), 86_400)
  }

  package init(start: Int64, end: Int64, askAgain: Int64) {
    self.start = start
    self.end = end
    self.askAgain = askAgain
  }
}

extension Certificate {
  /// The name of the certificate towards the server (RFC 9773 §4.1); nil where it has no authorityKeyIdentifier.
  package var renewalIdentifier: String? {
    guard let key = authorityKeyIdentifier, !key.isEmpty, let serial = serialOctets else { return nil }
    return "\(Base64.encodeURL(key)).\(Base64.encodeURL(serial))"
  }
}

/// Times of RFC 3339.
enum InternetTime {
  /// Seconds since 1970, fractions left out; nil for another text.
  static func seconds(_ text: String) -> Int64? {
    let bytes = Array(text.utf8)
    func number(_ start: Int, _ count: Int) -> Int64? {
      guard start + count <= bytes.count, bytes[start..<start + count].allSatisfy({ $0 &- 48 < 10 }) else { return nil }
      return bytes[start..<start + count].reduce(0) { $0 * 10 + Int64($1 - 48) }
    }
    guard bytes.count >= 20, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
      bytes[10] | 0x20 == UInt8(ascii: "t") || bytes[10] == 0x20, bytes[13] == UInt8(ascii: ":"),
      bytes[16] == UInt8(ascii: ":"),
      let year = number(0, 4), let month = number(5, 2), let day = number(8, 2), let hour = number(11, 2),
      let minute = number(14, 2), let second = number(17, 2), (1...12).contains(month), (1...31).contains(day),
      hour < 24, minute < 60, second <= 60
    else { return nil }
    var at = 19
    if bytes[at] == UInt8(ascii: ".") {
      at += 1
      let start = at
      while at < bytes.count, bytes[at] &- 48 < 10 { at += 1 }
      guard at > start else { return nil }
    }
    guard at < bytes.count else { return nil }
    var offset: Int64 = 0
    switch bytes[at] {
    case UInt8(ascii: "Z"), UInt8(ascii: "z"): guard at + 1 == bytes.count else { return nil }
    case UInt8(ascii: "+"), UInt8(ascii: "-"):
      guard at + 6 == bytes.count, bytes[at + 3] == UInt8(ascii: ":"), let hours = number(at + 1, 2),
        let minutes = number(at + 4, 2), hours < 24, minutes < 60
      else { return nil }
      offset = (hours * 60 + minutes) * (bytes[at] == UInt8(ascii: "+") ? 60 : -60)
    default: return nil
    }
    // Days since 1970, by years that begin in March, so that a leap day is a year's last.
    let (shifted, start) = month > 2 ? (month - 3, year) : (month + 9, year - 1)
    let leaps = start / 4 - start / 100 + start / 400
    let days = start * 365 + leaps + (shifted * 153 + 2) / 5 + day - 719_469
    return days * 86_400 + hour * 3600 + minute * 60 + second - offset
  }
}

extension RenewalWindow {
  /// Asks the server about a certificate of this name (RFC 9773 §4). nil: the server has no such answers.
  package static func ask(
    _ client: ACMEClient, _ directory: ACMEURL, _ identifier: String
  ) throws(ACMEError) -> RenewalWindow? {
    let found = try ACMEDirectory(client.get(directory).object("its directory"), from: directory)
    guard let place = found.renewalInfo, let url = ACMEURL("\(place)/\(identifier)") else { return nil }
    return try RenewalWindow(client.get(url))
  }
}
