import Bytes
import CPCRE2

/// Why a pattern could not be compiled. `offset` counts bytes of the pattern.
public struct PatternError: Error, Sendable, Hashable, CustomStringConvertible {
  public var message: String
  public var offset: Int
  public var description: String { "\(message) at offset \(offset)" }
}

/// The result of a match.
public enum MatchOutcome: Sendable, Hashable {
  case match
  case noMatch
  /// No result: the match reached a limit, or the subject can't be matched (not UTF-8 under `(*UTF)`). Code that
  /// decides access by a pattern must refuse then, and never treat this as `noMatch`.
  case limit
}

/// A compiled PCRE2 pattern, the dialect of nginx's `~`.
///
/// It is compiled once at load. All workers match with it at the same time, each with its own `Scratch`. The work of a
/// match is bounded for every pattern and subject, so that no match can hang a worker. PCRE2 compiles it to machine
/// code where the system allows that (see `isCompiledToMachineCode`); otherwise its interpreter gives the same results.
public final class RegularExpression: @unchecked Sendable {
  // @unchecked: PCRE2 never writes to compiled code after compilation (pcre2api, "Multithreading"). The pointer is set
  // once here and freed once in deinit.
  let code: OpaquePointer
  /// The pattern as written.
  public let pattern: String
  /// Whether upper and lower case are the same (`~*`).
  public let isCaseless: Bool
  /// The number of capturing groups, without group 0.
  public let captureCount: Int
  /// Named groups in the order of their numbers.
  public let names: [(name: String, number: Int)]
  public let isCompiledToMachineCode: Bool
  private let budget: MatchBudget

  /// `isWhole`: the pattern must match the whole subject. This uses PCRE2's options: text around the pattern would not,
  /// because the pattern could close a group that the text opened.
  public init(_ pattern: String, caseless: Bool = false, isWhole: Bool = false) throws(PatternError) {
    var error: Int32 = 0
    var offset = 0
    var text = pattern
    var options = PCRE2_NEVER_BACKSLASH_C | (caseless ? PCRE2_CASELESS : 0)
    if isWhole { options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED }
    let compiled = text.withUTF8 { pcre2_compile_8($0.baseAddress, $0.count, options, &error, &offset, nil) }
    guard let compiled else { throw PatternError(message: Self.message(error), offset: offset) }
    code = compiled
    self.pattern = pattern
    self.isCaseless = caseless
    captureCount = Int(Self.number(PCRE2_INFO_CAPTURECOUNT, of: compiled))
    names = Self.names(of: compiled)
    // Fails where memory may not be both writable and executable (MemoryDenyWriteExecute); then the interpreter runs.
    isCompiledToMachineCode = pcre2_jit_compile_8(compiled, PCRE2_JIT_COMPLETE) == 0
    budget = MatchBudget(isAnchored: Self.number(PCRE2_INFO_ALLOPTIONS, of: compiled) & PCRE2_ANCHORED != 0)
  }

  deinit { pcre2_code_free_8(code) }

  /// Searches the subject. On `match` the captures are ranges of the subject; otherwise they are empty.
  public func match(
    _ subject: UnsafeRawBufferPointer, scratch: Scratch, into captures: inout Captures
  ) -> MatchOutcome {
    captures.removeAll()
    guard subject.count < MatchBudget.longestSubject, let context = scratch.context,
      let data = scratch.data(groups: captureCount + 1)
    else { return .limit }
    pcre2_set_match_limit_8(context, budget.steps(subjectLength: subject.count))
    // PCRE2 before 10.41 accepts no null pointer, not even for an empty subject.
    let start = subject.baseAddress ?? UnsafeRawPointer(context)
    let bytes = start.assumingMemoryBound(to: UInt8.self)
    let result = pcre2_match_8(code, bytes, subject.count, 0, 0, data, context)
    if result == PCRE2_ERROR_NOMATCH { return .noMatch }
    guard result > 0, let places = pcre2_get_ovector_pointer_8(data) else { return .limit }
    captures.fill(places, set: Int(result), of: captureCount + 1, subjectLength: subject.count)
    return .match
  }

  private static func number(_ what: Int32, of code: OpaquePointer) -> UInt32 {
    var value: UInt32 = 0
    return pcre2_pattern_info_8(code, UInt32(bitPattern: what), &value) == 0 ? value : 0
  }

  private static func names(of code: OpaquePointer) -> [(name: String, number: Int)] {
    var table: UnsafePointer<UInt8>?
    let size = Int(number(PCRE2_INFO_NAMEENTRYSIZE, of: code))
    let count = Int(number(PCRE2_INFO_NAMECOUNT, of: code))
    guard size > 3, count > 0, pcre2_pattern_info_8(code, UInt32(bitPattern: PCRE2_INFO_NAMETABLE), &table) == 0,
      let table
    else { return [] }
    // Each entry: the number in two bytes, the name, a NUL.
    return (0..<count).map { index in
      let entry = UnsafeBufferPointer(start: table + index * size, count: size)
      let name = String(decoding: entry[2...].prefix { $0 != 0 }, as: UTF8.self)
      return (name, Int(entry[0]) << 8 | Int(entry[1]))
    }.sorted { $0.number < $1.number }
  }

  private static func message(_ code: Int32) -> String {
    var text = [UInt8](repeating: 0, count: 256)
    let length = pcre2_get_error_message_8(code, &text, text.count)
    return length > 0 ? String(decoding: text.prefix(Int(length)), as: UTF8.self) : "PCRE2 error \(code)"
  }
}
