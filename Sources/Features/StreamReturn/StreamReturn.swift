import Bytes
import Forward
import Language
import Observability
import Traffic
import Transport

/// return in stream (nginx: ngx_stream_return_module): sends a text and ends the connection.
struct StreamReturn: ContentFeature {
  private let text: Template

  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  static let directives: [DirectiveEntry] = [
    .local(
      "return", .streamServer, .words(1...1, "TEXT"), "Sends the text to the client, and ends the connection.",
      example: "return $ssl_client_s_dn;", trust: .told)
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> StreamReturn? {
    line(in: level.scope).map { StreamReturn(text: builder.template($0, 0)) }
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = ReturnedText(text.compiled) }

  func words(_ http: HTTPSettings) -> String { "returns \"\(LogEscape.text(Array(text.text(http.slotNames).utf8)))\"" }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    guard let old, let new, old.text.text(names.old) != new.text.text(names.new) else { return }
    found.other("return sends another text")
  }
}

private final class ReturnedText: LiveContent {
  private let text: CompiledTemplate

  init(_ text: CompiledTemplate) { self.text = text }

  override func handler(for worker: Worker) -> ContentHandler? { ReturnHandler(text) }

  override func explained(_ session: StreamSession) -> (words: String, result: SessionResult)? {
    ("returns \"\(LogEscape.text(text.bytes(session)))\"", .ok)
  }
}

private final class ReturnHandler: ContentHandler {
  private let text: CompiledTemplate
  private var session: StreamSession?

  init(_ text: CompiledTemplate) { self.text = text }

  override func start(_ session: StreamSession) {
    self.session = session
    let bytes = text.bytes(session)
    guard !session.variables.isBroken, let stream = session.stream else { return session.end(.error) }
    session.beginPassing()
    bytes.withUnsafeBytes { stream.send(body: $0) }
    stream.flush()
    if stream.waitingBytes == 0 { return session.end(.ok) }
    stream.setDeadline(in: session.location.limits.sendTimeout)
  }

  override func clientDidDrain() { session?.end(.ok) }
  override func deadlineDidPass() { session?.end(.timeout) }
  override func recycle() { session = nil }
}
