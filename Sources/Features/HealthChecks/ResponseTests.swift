import Bytes
import HTTP
import Patterns
import Traffic

/// The tests of a `match` block on a response. Each returns why the response fails, or nil if it passes.
///
/// A pattern that reaches its limit fails the response: it is never taken for "no match".
extension ResponseMatch {
  /// Without a `match` block, 2xx and 3xx pass.
  static func fault(ofStatus status: UInt16) -> String? {
    (200...399).contains(status) ? nil : "the status is \(status)"
  }

  func fault(in head: ResponseHead, _ scratch: RegularExpression.Scratch) -> String? {
    let passes = self.statuses.allSatisfy { $0.codes.contains { $0.contains(head.status) } != $0.isNegated }
    guard passes else { return "the status is \(head.status)" }
    for test in fields {
      if let fault = Self.fault(test, in: head, scratch) { return fault }
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

  private static func fault(
    _ test: FieldTest, in head: ResponseHead, _ scratch: RegularExpression.Scratch
  ) -> String? {
    let bytes = head.bytes.readable, name = String(decoding: test.name, as: UTF8.self)
    let values: [[UInt8]] = test.name.withUnsafeBytes { name in
      head.fields.filter { bytes[$0.name].equalsIgnoringCase(name) }.map { Array(bytes[$0.value]) }
    }
    if case .isAbsent = test.demand { return values.isEmpty ? nil : "the response has the field \(name)" }
    if values.isEmpty { return "the response has no field \(name)" }
    switch test.demand {
    case .isPresent, .isAbsent: return nil
    case .equals(let value, let isNegated):
      return values.contains(value) != isNegated ? nil : "the field \(name) has another value"
    case .matches(let pattern, let isNegated):
      let outcomes = values.map { $0.withUnsafeBytes { pattern.outcome($0, scratch) } }
      if outcomes.contains(.limit) { return "the field \(name) was too much work for its expression" }
      return outcomes.contains(.match) != isNegated ? nil : "the field \(name) has another value"
    }
  }
}

extension MatchPattern {
  func outcome(_ subject: UnsafeRawBufferPointer, _ scratch: RegularExpression.Scratch) -> MatchOutcome {
    var captures = Captures()
    return expression.match(subject, scratch: scratch, into: &captures)
  }
}
