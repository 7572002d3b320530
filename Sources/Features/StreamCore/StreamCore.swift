import Bytes
import Forward
import Language
import Negotiation
import Observability
import TLS
import Traffic
import Transport

/// stream and its servers (nginx: ngx_stream_core_module): connections of any protocol, passed as they are.
///
/// The directives that `http` has too stand in the folders of their features.
enum StreamCore: Feature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  private static let alpn = DirectiveEntry.value(
    "ssl_alpn", .everyStream, .words(1...Int.max, "PROTOCOL …"), "",
    "The protocols that ALPN may select (RFC 7301). A client that offers only others is refused; one that offers none is"
      + " not.", example: "ssl_alpn postgresql;")

  static let directives: [DirectiveEntry] =
    [
      .local(
        "stream", .main, .block(0...0, ""),
        "The servers that pass connections of any protocol over TCP: databases, mail, directories, remote shells.",
        example: "stream { server { listen 5433; proxy_pass 127.0.0.1:5432; } }", trust: .told),
      .local(
        "server", .stream, .block(0...0, ""), "A server: addresses, who may connect, and where connections go.",
        repeatable: true, example: "server { listen 127.0.0.1:6380; proxy_pass 127.0.0.1:6379; }", trust: .told),
    ] + rows.entries

  private static let rows: [Row<StreamServerSettings>] = [
    .milliseconds(
      "proxy_protocol_timeout", .everyStream, \.proxyHeaderTimeout,
      "How long sallyport waits for the header of the PROXY protocol (`listen … proxy_protocol`).",
      example: "proxy_protocol_timeout 5s;", trust: .none),
    .milliseconds(
      "ssl_handshake_timeout", .everyStream, \.handshakeTimeout,
      "The time limit for the TLS handshake, with the negotiation of `starttls` before it.",
      example: "ssl_handshake_timeout 10s;", trust: .none),
    Row(alpn),
    .milliseconds(
      "connection_max_time", .everyStream, \.lifetime,
      "How long a connection may last; 0 means no limit. nginx has no such directive.",
      example: "connection_max_time 12h;", trust: .none),
  ]

  /// As much as a session has seen by now.
  static let variables = [
    FeatureVariable(ofSession: "protocol", "`TCP`.") { _, output in output.append("TCP") },
    FeatureVariable(ofSession: "bytes_received", "Bytes that the client has sent.") { session, output in
      output.append(decimal: session.stream?.receivedBytes ?? 0)
    },
    FeatureVariable(ofSession: "session_time", "Seconds since the session began, with milliseconds.") {
      session, output in
      Transaction.append(milliseconds: session.worker.loop.now &- session.startedAt, to: &output)
    },
  ]

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.kind == .stream else { return }
    block.stream = StreamServerSettings()
    rows.read(block.scope, into: &block.stream, &builder)
    block.linesOfTLS?.protocols =
      alpn.line(in: block.scope).map { .names(OfferedProtocols.names($0.arguments, of: $0, &builder)) } ?? .any
  }
}

extension OfferedProtocols {
  /// The names of an ALPN directive, 1 to 255 bytes each.
  static func names(_ words: [Word], of line: Directive, _ builder: inout SettingsBuilder) -> [String] {
    words.compactMap { word in
      if (1...255).contains(word.text.utf8.count) { return word.text }
      builder.error(
        word.location, "invalid protocol \"\(word.text)\" in \"\(line.name)\" directive",
        hint: "1 to 255 bytes (RFC 7301)"
      )
      return nil
    }
  }
}
