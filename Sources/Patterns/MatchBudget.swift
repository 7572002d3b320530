/// Limits the steps of a match.
///
/// PCRE2 applies its match limit anew at each place where an unanchored match may begin. So the limit alone bounds the
/// work of a call by limit × length. A fixed sum, divided among the places, bounds the call itself.
struct MatchBudget {
  /// The most steps from one start (`pcre2_set_match_limit`), far above what ordinary patterns need.
  static let stepsOfOneStart: UInt32 = 100_000
  /// The steps of a whole call: some tenths of a second at worst.
  static let stepsOfOneCall = 10_000_000
  /// The steps that each start has at least.
  static let leastSteps: UInt32 = 1_000
  /// KiB of back-tracking memory (`pcre2_set_heap_limit`), for the interpreter.
  static let heapKibibytes: UInt32 = 4_096
  /// The machine code's stack in bytes: its initial and its largest size.
  static let leastStackBytes = 32 << 10
  static let stackBytes = 512 << 10
  /// In bytes. sallyport's subjects are much shorter; ranges count in 32 bits.
  static let longestSubject = 1 << 24

  let isAnchored: Bool

  func steps(subjectLength: Int) -> UInt32 {
    if isAnchored { return Self.stepsOfOneStart }
    let share = UInt32(clamping: Self.stepsOfOneCall / max(1, subjectLength))
    return min(Self.stepsOfOneStart, max(Self.leastSteps, share))
  }
}
