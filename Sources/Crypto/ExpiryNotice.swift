/// How long before its end a certificate or a revocation list is told of (`ssl_expiry_warning`).
public enum ExpiryNotice: Sendable, Hashable {
  /// 14 days, but only in the last quarter of a life: what is renewed in time is never told of, however short it lives.
  case standard
  /// So many seconds, whatever the life.
  case before(seconds: Int64)

  package enum Age: Sendable, Hashable {
    case valid
    /// It ends soon.
    case ending
    /// It has ended. Like OpenSSL, this counts the last second as past.
    case ended
  }

  /// Of a revocation list.
  package enum ListAge: Sendable, Hashable {
    /// It has not begun, so it counts as little as one that has ended: OpenSSL refuses every certificate of its CA.
    case future
    case begun(Age)
  }

  private static let most: Int64 = 14 * 86_400

  /// `begin` and `end`: seconds since 1970, from anybody's certificate, so of any value.
  package func age(from begin: Int64, to end: Int64, at now: Int64) -> Age {
    guard end > now else { return .ended }
    let (left, isEndless) = end.subtractingReportingOverflow(now)
    return !isEndless && left <= seconds(from: begin, to: end) ? .ending : .valid
  }

  /// The first second in which it is told of, by seconds since 1970.
  package func start(from begin: Int64, to end: Int64) -> Int64 {
    let (start, isBeforeAll) = end.subtractingReportingOverflow(seconds(from: begin, to: end))
    return isBeforeAll ? .min : start
  }

  /// `end`: nil if the list never ends.
  package func listAge(from begin: Int64, to end: Int64?, at now: Int64) -> ListAge {
    guard begin <= now else { return .future }
    return .begun(end.map { age(from: begin, to: $0, at: now) } ?? .valid)
  }

  private func seconds(from begin: Int64, to end: Int64) -> Int64 {
    switch self {
    case .before(let seconds): return seconds
    case .standard:
      let (life, isEndless) = end.subtractingReportingOverflow(begin)
      return isEndless ? Self.most : min(Self.most, max(0, life / 4))
    }
  }
}

/// Spans until an end, in words.
package enum ExpiryWords {
  /// `ends in 5 days`, `ends within a day`; `ended 4 days ago`, `ended within the last day`
  package static func ends(_ end: Int64, at now: Int64) -> String {
    guard end <= now else { return "ends \(span(from: now, to: end))" }
    let (past, isEndless) = now.subtractingReportingOverflow(end)
    let days = (isEndless ? .max : past) / 86_400
    return days < 1 ? "ended within the last day" : "ended \(days) \(days == 1 ? "day" : "days") ago"
  }

  /// `in 5 days`, `within a day`; rounded down.
  package static func span(from now: Int64, to time: Int64) -> String {
    let (left, isEndless) = time.subtractingReportingOverflow(now)
    let days = (isEndless ? .max : left) / 86_400
    return days < 1 ? "within a day" : "in \(days) \(days == 1 ? "day" : "days")"
  }
}
