/// An instant that a certificate names (RFC 5280 §4.1.2.5), as far as its octets can be read.
///
/// Anybody can show a certificate whose validity is no time at all. So an unreadable instant is a case and never a
/// number that arithmetic could overflow on. Every question about it fails closed: what it begins has not begun, and
/// what it ends has ended.
package enum CertificateTime: Sendable, Hashable {
  /// Seconds since 1970. The encoding has four digits for a year, so the year lies between 0 and 9999.
  case at(Int64)
  /// The octets encode no instant.
  case unreadable

  /// Seconds since 1970; nil for an unreadable instant.
  package var seconds: Int64? {
    switch self {
    case .at(let seconds): seconds
    case .unreadable: nil
    }
  }

  /// Whether what this instant begins has begun.
  package func hasBegun(at now: Int64) -> Bool {
    switch self {
    case .at(let seconds): seconds <= now
    case .unreadable: false
    }
  }

  /// Whether what this instant ends has ended. OpenSSL too counts the instant itself as past.
  package func hasEnded(at now: Int64) -> Bool {
    switch self {
    case .at(let seconds): seconds <= now
    case .unreadable: true
    }
  }

  /// Whole days from `now` on, negative in the past; nil for an unreadable instant.
  package func days(from now: Int64) -> Int64? {
    guard case .at(let seconds) = self else { return nil }
    let (left, overflow) = seconds.subtractingReportingOverflow(now)
    return (overflow ? (seconds < now ? .min : .max) : left) / 86_400
  }

  /// The one that comes first. An unreadable instant comes before all others, since what it ends has ended.
  package static func earliest(_ instants: some Sequence<CertificateTime>) -> CertificateTime? {
    var earliest: CertificateTime?
    for instant in instants {
      switch (earliest, instant) {
      case (_, .unreadable): return .unreadable
      case (.at(let first)?, .at(let other)): earliest = .at(min(first, other))
      case (_, .at): earliest = instant
      }
    }
    return earliest
  }
}
