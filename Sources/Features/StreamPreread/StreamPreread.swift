import Bytes
import Forward
import Language
import Observability
import Traffic

/// ssl_preread (nginx: ngx_stream_ssl_preread_module): what a ClientHello says is known although the TLS goes on to the
/// upstream, which ends it.
enum StreamPreread: Feature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  private static let rows: [Row<StreamServerSettings>] = [
    .flag(
      "ssl_preread", .everyStream, \.preread.isOn,
      "Whether to read the ClientHello of a `listen` without ssl for `$ssl_preread_…`, and to select the server block by its"
        + " name. Nothing of it is verified.", example: "ssl_preread on;", trust: .told),
    .size(
      "preread_buffer_size", .everyStream, \.preread.bufferSize,
      limits: (1...PrereadSettings.mostBytes, "from 1 to \(PrereadSettings.mostBytes >> 10)k"),
      "The most bytes of a client that are read to find the ClientHello; with more, the connection ends.",
      example: "preread_buffer_size 32k;", trust: .none),
    .milliseconds(
      "preread_timeout", .everyStream, \.preread.timeout, "How long sallyport waits for the ClientHello.",
      example: "preread_timeout 5s;", trust: .none),
  ]
  static let directives = rows.entries

  private static func variable(
    _ name: String, _ help: String, isClientsWish: Bool = false,
    _ value: @escaping @Sendable (PrereadFacts, inout ByteBuffer) -> Void
  ) -> FeatureVariable {
    FeatureVariable(ofSession: name, help, saysClient: false, isClientsWish: isClientsWish) { session, output in
      if let facts = session.session.tcp?.preread { value(facts, &output) }
    }
  }

  static let variables = [
    variable(
      "ssl_preread_server_name", "The name that the client asks for in its ClientHello. The client chooses it.",
      isClientsWish: true
    ) { $1.append($0.serverName) },
    variable("ssl_preread_protocol", "The highest version of TLS that the ClientHello offers.") {
      $1.append(string: $0.version)
    },
    variable("ssl_preread_alpn_protocols", "The protocols of ALPN that the ClientHello offers, with commas between.") {
      facts, output in
      for (index, name) in facts.protocols.enumerated() {
        if index > 0 { output.append(0x2C) }
        output.append(name)
      }
    },
  ]

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    rows.read(block.scope, into: &block.stream, &builder)
  }
}
