import Crypto
import Forward
import Observability
import Patterns
import Traffic
import Transport

/// `if`: runs or leaves out the steps of its block, which follow this step. If the condition holds in a location, the
/// exchange goes on in the location of the block.
final class ConditionStep: PhaseStep {
  private enum Condition {
    case isSet(CompiledTemplate)
    case equals(CompiledTemplate, CompiledTemplate)
    case matches(CompiledTemplate, RegularExpression, [NamedCapture])
    case file(CompiledTemplate, FileTest)
  }

  private let condition: Condition
  private let isNegated: Bool
  private let blockLength: Int
  /// The block's location in `ConditionalLocations`; nil for an `if` of a server block.
  private var block: Int?

  override var isCondition: Bool { true }

  init(_ settings: ConditionSettings, blockLength: Int) {
    condition =
      switch settings.condition {
      case .isSet(let value): .isSet(value.compiled)
      case .equals(let one, let other): .equals(one.compiled, other.compiled)
      case .matches(let value, let pattern, let captures): .matches(value.compiled, pattern, captures)
      case .file(let path, let test): .file(path.compiled, test)
      }
    isNegated = settings.isNegated
    self.blockLength = blockLength
  }

  /// Sets the block's location, at load: it has this step among its own.
  func lead(to block: Int) { self.block = block }

  override func run(_ exchange: Exchange) -> StepOutcome {
    switch condition {
    case .isSet(let value):
      let bytes = value.bytes(exchange)
      return go(exchange, !bytes.isEmpty && bytes != [0x30])
    case .equals(let one, let other): return go(exchange, one.bytes(exchange) == other.bytes(exchange))
    case .matches(let value, let pattern, let captures):
      let subject = value.bytes(exchange)
      let outcome = exchange.match(pattern, subject, captures)
      exchange.logRewrite(pattern, subject, outcome)
      if outcome == .limit { return exchange.failPattern(pattern) }
      return go(exchange, outcome == .match)
    case .file(let path, let test): return look(at: path.bytes(exchange), test, exchange)
    }
  }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    guard case .file(let path, let test) = condition else { return run(exchange) }
    let outcome = test.look(at: path.bytes(exchange))
    if case .unknown = outcome { trace.add("note", "the file can't be looked at by this user") }
    return go(exchange, outcome == .holds)
  }

  private func go(_ exchange: Exchange, _ isTrue: Bool) -> StepOutcome {
    guard isTrue != isNegated else { return .skip(blockLength) }
    guard let block else { return .next }
    return exchange.enterBlock(block) ? .next : .responded
  }

  /// A pool thread looks at the file, because that can take as long as a disk or a network takes.
  private func look(at path: [UInt8], _ test: FileTest, _ exchange: Exchange) -> StepOutcome {
    PendingWork.run(.fileTests, for: exchange, { test.look(at: path) }) { [self] exchange, outcome in
      if case .unknown(let code) = outcome {
        exchange.tellOfRepeated(.crit, "stat() \"\(LogEscape.text(path))\" failed (\(SocketError("stat", code)))")
      }
      exchange.resume(go(exchange, outcome == .holds))
    }
    return .wait
  }
}

/// The steps of a rewrite phase: a flat list, in which the steps of an `if` block follow its condition.
struct RewriteProgram {
  private(set) var steps: [PhaseStep] = []
  /// The conditions that lead to a location.
  private(set) var blocks: [(step: ConditionStep, location: LocationSettings)] = []

  init(_ settings: [RewriteStep]) { append(settings) }

  private mutating func append(_ settings: [RewriteStep]) {
    for step in settings {
      switch step {
      case .set(let slot, let value): steps.append(SetStep(slot: slot, value.compiled))
      case .setArguments(let value): steps.append(SetArgumentsStep(value.compiled))
      case .return(let settings): steps.append(ReturnStep(settings))
      case .rewrite(let rule): steps.append(RewriteRuleStep(rule))
      case .break: steps.append(BreakStep())
      case .if(let block):
        let inner = RewriteProgram(block.steps)
        let condition = ConditionStep(block, blockLength: inner.steps.count)
        steps.append(condition)
        steps += inner.steps
        if let location = block.location { blocks.append((condition, location)) }
        blocks += inner.blocks
      }
    }
  }
}
