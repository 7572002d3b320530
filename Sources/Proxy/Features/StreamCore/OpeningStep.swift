/// The last step of a session's rules in `stream`: the client's protocol begins, and the content when that is open.
final class OpeningStep: PhaseStep {
  override func run(_ exchange: Exchange) -> StepOutcome {
    (exchange.stream as? TCPStream)?.rulesDidPass()
    return .wait
  }

  override var words: String { "the client's protocol begins" }

  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome { .next }
}
