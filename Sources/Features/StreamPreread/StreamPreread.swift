import Bytes
import Language
import Observability

/// ssl_preread (nginx: ngx_stream_ssl_preread_module): what a ClientHello says is known although the TLS goes on to the
/// upstream, which ends it.
enum StreamPreread: Feature {
  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  static let directives: [DirectiveEntry] = [
    .value(
      "ssl_preread", .everyStream, .flag, "off",
      "Whether to read the ClientHello of a `listen` without ssl for `$ssl_preread_…`, and to select the server block by its"
        + " name. Nothing of it is verified.", example: "ssl_preread on;", trust: .told),
    .value(
      "preread_buffer_size", .everyStream, .size, "16k",
      "The most bytes of a client that are read to find the ClientHello; with more, the connection ends.",
      example: "preread_buffer_size 32k;", trust: .none),
    .value(
      "preread_timeout", .everyStream, .milliseconds, "30s", "How long sallyport waits for the ClientHello.",
      example: "preread_timeout 5s;", trust: .none),
  ]

  private static func variable(
    _ name: String, isClientsWish: Bool = false,
    _ value: @escaping @Sendable (PrereadFacts, inout ByteBuffer) -> Void
  ) -> FeatureVariable {
    FeatureVariable(name, saysClient: false, isClientsWish: isClientsWish, of: [.stream]) { exchange, output in
      if let facts = (exchange.session.tcp)?.preread { value(facts, &output) }
    }
  }

  static let variables = [
    variable("ssl_preread_server_name", isClientsWish: true) { $1.append($0.serverName) },
    variable("ssl_preread_protocol") { $1.append(string: $0.version) },
    variable("ssl_preread_alpn_protocols") { facts, output in
      for (index, name) in facts.protocols.enumerated() {
        if index > 0 { output.append(0x2C) }
        output.append(name)
      }
    },
  ]

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    block.stream?.preread = settings(block.scope, &builder)
  }

  private static func settings(_ scope: Scope, _ builder: inout SettingsBuilder) -> PrereadSettings {
    var settings = PrereadSettings()
    settings.isOn = scope.flag("ssl_preread") ?? false
    settings.timeout = scope.milliseconds("preread_timeout") ?? settings.timeout
    guard let line = scope.value("preread_buffer_size"), let size = Quantity.size(line.text(0)) else { return settings }
    if (1...PrereadSettings.mostBytes).contains(size) {
      settings.bufferSize = size
    } else {
      builder.error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"preread_buffer_size\" directive",
        hint: "from 1 to \(PrereadSettings.mostBytes >> 10)k")
    }
    return settings
  }
}
