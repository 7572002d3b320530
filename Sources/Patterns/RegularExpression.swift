import Bytes
import CPCRE2

/// Why a pattern could not be compiled. `offset` counts bytes of the pattern.
public struct PatternError: Error, Sendable, Hashable, CustomStringConvertible {
  public var message: String
  public var offset: Int
  public var description: String { "\(message) at offset \(offset)" }
}

/// What a match came to.
public enum MatchOutcome: Sendable, Hashable {
  case match
  case noMatch
  /// No answer: a bound on the work was reached, or the subject can't be judged (not UTF-8 under `(*UTF)`).
  /// Whoever decides by a pattern must refuse, never take this for `noMatch`.
  case limit
}

/// A compiled pattern of PCRE2, the dialect of nginx's `~`.
///
/// Why: compiled once at load, matched by every worker at the same time, each with a `Scratch` of its own. The work of
/// one match is bounded whatever the pattern and the subject, so that none can hang a worker. The machine-code
/// compiler is used where the system allows it (see `isCompiledToMachineCode`), else the interpreter: same answers.
public final class RegularExpression: @unchecked Sendable {
  // Unchecked: PCRE2 never writes to compiled code after compilation (pcre2api, "Multithreading"); the pointer is
  // set once here and freed once in deinit.
  let code: OpaquePointer
  /// As written.
  public let pattern: String
  /// Groups that capture, group 0 not counted.
  public let captureCount: Int
  /// Named groups in the order of their numbers.
  public let names: [(name: String, number: Int)]
  public let isCompiledToMachineCode: Bool
  private let budget: MatchBudget

  /// `isWhole`: it must be the whole subject. Not by words around the pattern, which could close what they open.
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
    captureCount = Int(Self.number(PCRE2_INFO_CAPTURECOUNT, of: compiled))
    names = Self.names(of: compiled)
    // Refused where memory may not be both written and run (MemoryDenyWriteExecute): the interpreter takes over.
    isCompiledToMachineCode = pcre2_jit_compile_8(compiled, PCRE2_JIT_COMPLETE) == 0
    budget = MatchBudget(isAnchored: Self.number(PCRE2_INFO_ALLOPTIONS, of: compiled) & PCRE2_ANCHORED != 0)
  }

  deinit { pcre2_code_free_8(code) }

  /// Searches the subject. On `match` the captures are ranges of it; otherwise they are emptied.
  public func match(
    _ subject: UnsafeRawBufferPointer, scratch: Scratch, into captures: inout Captures
  ) -> MatchOutcome {
    captures.removeAll()
    guard subject.count < MatchBudget.longestSubject, let context = scratch.context,
      let data = scratch.data(groups: captureCount + 1)
    else { return .limit }
    pcre2_set_match_limit_8(context, budget.steps(subjectLength: subject.count))
    // PCRE2 before 10.41 takes no null pointer, not even for nothing.
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
