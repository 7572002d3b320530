import CPCRE2

extension RegularExpression {
  /// One worker's memory for matching, which is never shared.
  ///
  /// PCRE2 needs memory for its result and its back-tracking. This memory exists for the life of the worker, so a match
  /// allocates nothing.
  public final class Scratch {
    /// nil when memory was short: every match is then `limit`.
    let context: OpaquePointer?
    private let stack: OpaquePointer?
    private var matchData: OpaquePointer?
    private var groups = 0

    public init() {
      context = pcre2_match_context_create_8(nil)
      stack = pcre2_jit_stack_create_8(MatchBudget.leastStackBytes, MatchBudget.stackBytes, nil)
      guard let context else { return }
      pcre2_set_depth_limit_8(context, MatchBudget.stepsOfOneStart)
      pcre2_set_heap_limit_8(context, MatchBudget.heapKibibytes)
      if let stack { pcre2_jit_stack_assign_8(context, nil, UnsafeMutableRawPointer(stack)) }
    }

    deinit {
      pcre2_match_data_free_8(matchData)
      pcre2_match_context_free_8(context)
      pcre2_jit_stack_free_8(stack)
    }

    /// Returns room for the results of this many groups, including group 0.
    func data(groups wanted: Int) -> OpaquePointer? {
      if let matchData, groups >= wanted { return matchData }
      let room = max(16, wanted)
      guard room <= UInt16.max, let fresh = pcre2_match_data_create_8(UInt32(room), nil) else { return nil }
      pcre2_match_data_free_8(matchData)
      matchData = fresh
      groups = room
      return fresh
    }
  }
}

@available(*, unavailable)
extension RegularExpression.Scratch: Sendable {}
