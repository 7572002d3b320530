import Files
import Forward
import Observability
import Traffic

/// `try_files`: a step of the precontent phase. It continues with the first file that is there, or elsewhere.
final class TryFilesStep: PhaseStep {
  private enum Fallback {
    case path(CompiledTemplate)
    case named(String)
    case status(Int)
  }

  private let candidates: [(name: CompiledTemplate, isFolder: Bool)]
  private let fallback: Fallback

  init(_ settings: TryFilesSettings) {
    candidates = settings.candidates.map { ($0.path.compiled, $0.isFolder) }
    fallback =
      switch settings.fallback {
      case .path(let path): .path(path.compiled)
      case .named(let name): .named(name)
      case .status(let status): .status(status)
      }
  }

  override func run(_ exchange: Exchange) -> StepOutcome {
    switch tests(exchange) {
    case .failure(let failure): return .fail(failure)
    case .success(let tests):
      FileRequest.run(exchange, { Self.search(tests.map(\.test)) }) { [self] exchange, findings in
        if let outcome = take(findings, tests.map(\.uri), exchange) { exchange.resume(outcome) }
      }
      return .wait
    }
  }

  override var words: String { "try_files" }

  /// `check` may wait for the disk.
  override func rehearse(_ exchange: Exchange, _ trace: ExplainTrace) -> StepOutcome {
    switch tests(exchange) {
    case .failure(let failure): .fail(failure)
    case .success(let tests): take(Self.search(tests.map(\.test)), tests.map(\.uri), exchange) ?? .responded
    }
  }

  private typealias Test = (path: ServedPath, kind: FileFacts.Kind)

  private func tests(_ exchange: Exchange) -> Result<[(uri: [UInt8], test: Test)], ErrorResponse> {
    guard let files = exchange.location.files else { return .failure(ErrorResponse(500)) }
    var tests: [(uri: [UInt8], test: Test)] = []
    for candidate in candidates {
      let (uri, path) = files.path(ofName: candidate.name.bytes(exchange), exchange)
      switch path {
      case .failure(let failure): return .failure(failure)
      case .success(let path): tests.append((uri, (path, candidate.isFolder ? .folder : .regular)))
      }
    }
    return .success(tests)
  }

  /// Continues with what was found; nil if the exchange has gone on elsewhere.
  private func take(_ findings: Findings, _ uris: [[UInt8]], _ exchange: Exchange) -> StepOutcome? {
    if let (path, fault) = findings.fault {
      exchange.tellOfRepeated(.crit, fault.description(of: LogEscape.text(path.text)))
    }
    guard let found = findings.found else { return fallBack(exchange) }
    exchange.setPath(uris[found])
    return .next
  }

  private struct Findings: Sendable {
    var found: Int?
    /// A file of which the system didn't say whether it is there; as in nginx, it counts as absent.
    var fault: (path: ServedPath, fault: FileFault)?
  }

  private static func search(_ tests: [Test]) -> Findings {
    var findings = Findings()
    for (index, test) in tests.enumerated() {
      switch ServedFile.look(at: test.path) {
      case .success(let facts):
        // As in nginx, what is no folder counts as a file here; the static module refuses a device.
        guard (facts.kind == .folder) == (test.kind == .folder) else { continue }
        findings.found = index
        return findings
      case .failure(let fault): if !fault.isAbsence { findings.fault = (test.path, fault) }
      }
    }
    return findings
  }

  private func fallBack(_ exchange: Exchange) -> StepOutcome? {
    switch fallback {
    case .path(let template):
      let path = template.bytes(exchange)
      if exchange.variables.isBroken { return exchange.failBroken(.next) }
      exchange.redirect(toPath: path)
    case .named(let name):
      guard let found = exchange.server.locations.named(name) else {
        exchange.log(.error, "could not find named location \"\(name)\"")
        return .fail(ErrorResponse(500))
      }
      exchange.redirect(toNamed: found)
    case .status(let status) where status < 400:
      exchange.answerPage(status: status)
    case .status(let status): return .fail(ErrorResponse(status))
    }
    return nil
  }
}
