/// How many steps a match may take.
///
/// Why: PCRE2 counts its match limit anew from each place of the subject where an unanchored match may begin, so the
/// work of one call is bounded by limit × length. A fixed sum, shared among the places, bounds the call itself.
struct MatchBudget {
  /// Steps from one starting place, at most (`pcre2_set_match_limit`): far above what honest patterns take.
  static let stepsOfOneStart: UInt32 = 100_000
  /// Steps of a whole call: some tenths of a second at worst.
  static let stepsOfOneCall = 10_000_000
  /// Steps that one start may always take.
  static let leastSteps: UInt32 = 1_000
  /// KiB of back-tracking memory (`pcre2_set_heap_limit`), for the interpreter.
  static let heapKibibytes: UInt32 = 4_096
  /// Bytes of stack of the machine code, of which only what is used is held.
  static let leastStackBytes = 32 << 10
  static let stackBytes = 512 << 10
  /// Bytes: no subject of ours comes near; ranges count in 32 bits.
  static let longestSubject = 1 << 24

  let isAnchored: Bool

  func steps(subjectLength: Int) -> UInt32 {
    if isAnchored { return Self.stepsOfOneStart }
    let share = UInt32(clamping: Self.stepsOfOneCall / max(1, subjectLength))
    return min(Self.stepsOfOneStart, max(Self.leastSteps, share))
  }
}
