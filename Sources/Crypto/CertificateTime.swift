/// A time in a certificate (RFC 5280 §4.1.2.5), as far as its octets can be read.
///
/// A peer can send a certificate whose validity is not a time at all. So an unreadable time is a case of its own, never
/// a number that could overflow in arithmetic. Every question fails closed: a validity that starts at an unreadable
/// time has not begun, and one that ends at it has ended.
package enum CertificateTime: Sendable, Hashable {
  /// Seconds since 1970. The encoding has four digits for a year, so the year is between 0 and 9999.
  case at(Int64)
  /// The octets do not encode a time.
  case unreadable

  /// Seconds since 1970; nil for an unreadable time.
  package var seconds: Int64? {
    switch self {
    case .at(let seconds): seconds
    case .unreadable: nil
    }
  }

  /// Whether a validity that starts at this time has begun.
  package func hasBegun(at now: Int64) -> Bool {
    switch self {
    case .at(let seconds): seconds <= now
    case .unreadable: false
    }
  }

  /// Whether a validity that ends at this time has ended. Like OpenSSL, this counts the time itself as past.
  package func hasEnded(at now: Int64) -> Bool {
    switch self {
    case .at(let seconds): seconds <= now
    case .unreadable: true
    }
  }

  /// Whole days from `now`, negative in the past; nil for an unreadable time.
  package func days(from now: Int64) -> Int64? {
    guard case .at(let seconds) = self else { return nil }
    let (left, overflow) = seconds.subtractingReportingOverflow(now)
    return (overflow ? (seconds < now ? .min : .max) : left) / 86_400
  }

  /// The earliest time. An unreadable time comes before all others, because a validity that ends at it has ended.
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
