import Bytes
import Patterns
import Traffic

/// A `RewritePattern` in one worker.
enum LivePattern {
  case text(CompiledTemplate)
  case regex(RegularExpression, slots: [NamedCapture])

  init(_ pattern: RewritePattern) {
    switch pattern {
    case .text(let template): self = .text(template.compiled)
    case .regex(let expression, let slots): self = .regex(expression, slots: slots)
    }
  }

  /// Whether the expression matches; the exchange keeps what it captured. An expression that reaches its limit counts as
  /// no match: the value then stays the upstream's.
  static func matches(
    _ expression: RegularExpression, _ slots: [NamedCapture], _ value: [UInt8], _ exchange: Exchange
  ) -> Bool {
    var captures = Captures()
    let outcome = value.withUnsafeBytes {
      expression.match($0, scratch: exchange.worker.patternScratch, into: &captures)
    }
    guard case .match = outcome else { return false }
    exchange.take(captures, of: value, slots: slots)
    return true
  }
}
