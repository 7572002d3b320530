import Bytes
import HTTP
import Patterns

/// The tests of a `match` block on a response. Each returns why the response fails, or nil if it passes.
///
/// A pattern that reaches its limit fails the response: it is never taken for "no match".
extension ResponseMatch {
  /// Without a `match` block, 2xx and 3xx pass.
  static func fault(ofStatus status: UInt16) -> String? {
    (200...399).contains(status) ? nil : "the status is \(status)"
  }

  func fault(in head: ResponseHead, _ scratch: RegularExpression.Scratch) -> String? {
    if statuses.contains(where: { !$0.passes(head.status) }) { return "the status is \(head.status)" }
    for test in fields {
      if let fault = test.fault(in: head, scratch) { return fault }
    }
    return nil
  }

  func fault(inBody body: [UInt8], _ scratch: RegularExpression.Scratch) -> String? {
    for test in bodies {
      switch (body.withUnsafeBytes { test.pattern.outcome($0, scratch) }, test.isNegated) {
      case (.match, false), (.noMatch, true): break
      case (.match, true): return "the body matches \"\(test.pattern.expression.pattern)\""
      case (.noMatch, false): return "the body doesn't match \"\(test.pattern.expression.pattern)\""
      case (.limit, _): return "the body was too much work for \"\(test.pattern.expression.pattern)\""
      }
    }
    return nil
  }
}

extension ResponseMatch.StatusTest {
  func passes(_ status: UInt16) -> Bool { codes.contains { $0.contains(status) } != isNegated }
}

extension ResponseMatch.FieldTest {
  private var shownName: String { String(decoding: name, as: UTF8.self) }

  func fault(in head: ResponseHead, _ scratch: RegularExpression.Scratch) -> String? {
    let bytes = head.bytes.readable
    let values = name.withUnsafeBytes { name in
      head.fields.lazy.filter { bytes[$0.name].equalsIgnoringCase(name) }.map { Array(bytes[$0.value]) }
        as [[UInt8]]
    }
    if case .isAbsent = demand { return values.isEmpty ? nil : "the response has the field \(shownName)" }
    if values.isEmpty { return "the response has no field \(shownName)" }
    switch demand {
    case .isPresent, .isAbsent: return nil
    case .equals(let value, let isNegated):
      return values.contains(value) != isNegated ? nil : "the field \(shownName) has another value"
    case .matches(let pattern, let isNegated):
      let outcomes = values.map { $0.withUnsafeBytes { pattern.outcome($0, scratch) } }
      if outcomes.contains(.limit) { return "the field \(shownName) was too much work for its expression" }
      return outcomes.contains(.match) != isNegated ? nil : "the field \(shownName) has another value"
    }
  }
}

extension MatchPattern {
  fileprivate func outcome(_ subject: UnsafeRawBufferPointer, _ scratch: RegularExpression.Scratch) -> MatchOutcome {
    var captures = Captures()
    return expression.match(subject, scratch: scratch, into: &captures)
  }
}
