/// When a worker's sessions are next to be judged again, because what a client, or an upstream, was judged by ends.
///
/// Each session knows its own end, and the worker the earliest one: an admission compares two integers, and a request
/// none. The worker looks at the clock once a second, because the wall clock may jump and a timer of the monotonic clock
/// would not. That the earliest end may be that of a session which is closed costs one look at all sessions.
struct AdmissionEnds {
  /// Seconds since 1970; `.max`: no session has an end.
  private var next = Int64.max

  /// Sessions that are judged in one turn of the loop. A revocation list that ends concerns all clients of its CA at once,
  /// and each takes some 100 µs.
  static let batch = 64

  init() {}
  /// `ends`: those of all sessions.
  init(_ ends: some Sequence<Int64>) { next = ends.min() ?? .max }

  /// A session has an end.
  @inline(__always)
  mutating func note(_ end: Int64) { if end < next { next = end } }

  func areDue(at now: Int64) -> Bool { now >= next }
}
