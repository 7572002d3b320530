import Forward
import HTTP
import Observability
import Patterns
import Traffic

/// `set`.
final class SetStep: SharedStep {
  private let slot: Int
  private let value: CompiledTemplate

  init(slot: Int, _ value: CompiledTemplate) {
    self.slot = slot
    self.value = value
  }

  override func judge(_ transaction: Transaction) -> RuleOutcome {
    transaction.set(slot, value.bytes(transaction))
    return .next
  }
}

/// `return`.
final class ReturnStep: PhaseStep {
  private enum Content {
    /// The standard page of the status.
    case standard
    case redirect(CompiledTemplate)
    case text(CompiledTemplate)
  }

  private let status: Int
  private let content: Content

  init(_ settings: ReturnSettings) {
    status = settings.status
    content =
      switch settings.content {
      case .standard: .standard
      case .redirect(let target): .redirect(target.compiled)
      case .text(let text): .text(text.compiled)
      }
  }

  override func run(_ exchange: Exchange) -> StepOutcome {
    // A server block's `return` runs before the exchange enters a location, so the access rules are checked here too.
    exchange.denies(exchange.location) ? .responded : respond(exchange)
  }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    if exchange.denies(exchange.location) { return .responded }
    if status < 300 { trace.answers() }
    return respond(exchange)
  }

  private func respond(_ exchange: Exchange) -> StepOutcome {
    let shown = exchange.progress.statusOverride ?? status
    switch content {
    case _ where status == 444: exchange.end(.silent)
    case .standard where status >= 400: return .fail(ErrorResponse(status))
    case .standard where [301, 302, 303, 307, 308].contains(status): exchange.answerPage(status: status)
    case .standard:
      // As in nginx, it is an empty text; in an error page, with the status of the error.
      exchange.answer(
        status: shown, type: "text/plain", typeByPath: true, body: UnsafeRawBufferPointer(start: nil, count: 0))
    case .redirect(let target):
      exchange.setStatus(shown)
      return exchange.redirectUnlessBroken(status: status, to: target.bytes(exchange))
    case .text(let text):
      // As in nginx, `$status` in the text is that of the response.
      exchange.setStatus(shown)
      text.bytes(exchange).withUnsafeBytes {
        exchange.answer(status: shown, type: "text/plain", typeByPath: true, body: $0)
      }
    }
    return .responded
  }
}

/// `set $args`.
final class SetArgumentsStep: PhaseStep {
  private let value: CompiledTemplate

  init(_ value: CompiledTemplate) { self.value = value }

  override func run(_ exchange: Exchange) -> StepOutcome {
    exchange.setArguments(value.bytes(exchange))
    return .next
  }
}

/// `break`.
final class BreakStep: PhaseStep {
  override func run(_ exchange: Exchange) -> StepOutcome {
    exchange.keepLocation()
    return .endPhase
  }
}

/// `rewrite_log`
extension Exchange {
  func logRewrite(_ pattern: RegularExpression, _ subject: [UInt8], _ outcome: MatchOutcome) {
    guard outcome != .limit else { return }
    logRewritten {
      "\"\(pattern.pattern)\" \(outcome == .match ? "matches" : "does not match") \"\(LogEscape.text(subject))\""
    }
  }

  func logRewritten(_ text: () -> String) {
    if location.object(RewriteLog.self) != nil { log(.notice, text()) }
  }
}
