import ACME
import Bytes
import Crypto
import Forward
import HTTP
package import Language
import Observability
import Patterns
package import Traffic

/// Spans of requests for a collector of OpenTelemetry (nginx: ngx_otel_module).
///
/// The folder is the whole feature: the directives and what they set here, what a request's span is in `RequestSpan`, how
/// it is written in `SpanWriter` and `SpanRecord`, and how it gets to the collector in `SpanBuffer` and `SpanExporter`.
package struct OpenTelemetry: LocationFeature {
  /// Which requests are traced (`otel_trace`).
  enum Decision: Sendable, Hashable {
    case always
    /// Those for which the text is `1` or `on`.
    case whereOn(Template)
  }

  /// What happens to the trace context of clients and upstreams (`otel_trace_context`).
  enum Context: String, Sendable, Hashable, CaseIterable {
    case ignore, extract, inject, propagate

    /// Whether a request belongs to the trace that its client names.
    var extracts: Bool { self == .extract || self == .propagate }
    /// Whether upstreams are told of the trace.
    var injects: Bool { self == .inject || self == .propagate }
  }

  struct Attribute: Sendable, Hashable {
    let name: String
    let value: Template
  }

  /// What the lines of `http` say.
  package struct Block: BlockPart {
    /// nil: no spans go out.
    package var export: SpanExport?
    package init() {}
  }

  /// nil: no request.
  let decision: Decision?
  let context: Context
  /// nil: the location's name.
  let name: Template?
  let attributes: [Attribute]

  // MARK: Directives

  package static let chapter = Chapter.http
  private static let levels = DirectiveContexts.everyHTTP
  private static let exporterLine = DirectiveEntry.local(
    "otel_exporter", .http, .block(0...0, ""),
    "The collector of OpenTelemetry that gets the spans of traced requests, by OTLP over HTTP.",
    example: "otel_exporter { endpoint http://127.0.0.1:4318; }", trust: .none)
  private static let serviceLine = DirectiveEntry.local(
    "otel_service_name", .http, .words(1...1, "NAME"), "unknown_service:sallyport",
    "`service.name` of the resource of all spans.", example: "otel_service_name gateway;", trust: .none)
  private static let resourceLine = DirectiveEntry.local(
    "otel_resource_attr", .http, .words(2...2, "NAME VALUE"), "An attribute of the resource of all spans.",
    repeatable: true, example: "otel_resource_attr deployment.environment.name production;", trust: .none)
  private static let traceLine = DirectiveEntry.value(
    "otel_trace", levels, .words(1...1, "on | off | $VARIABLE"), "off",
    "Whether requests are traced: a span of each, and one of each attempt at an upstream. With a variable, those for which it is `1` or `on`, such as `$otel_parent_sampled` or one of `split_clients`.",
    example: "otel_trace $otel_parent_sampled;", trust: .none)
  private static let contextLine = DirectiveEntry.value(
    "otel_trace_context", levels, .oneOf(Context.allCases.map(\.rawValue)), "ignore",
    "`extract`: the request belongs to the trace of the client's `traceparent`. `inject`: upstreams get a `traceparent` of sallyport's. `propagate`: both.",
    example: "otel_trace_context propagate;", trust: .none)
  private static let nameLine = DirectiveEntry.value(
    "otel_span_name", levels, .words(1...1, "TEXT"), "the location's name", "The name of a request's span.",
    example: "otel_span_name \"$request_method $server_name\";", trust: .none)
  private static let attributeLine = DirectiveEntry.list(
    "otel_span_attr", levels, .words(2...2, "NAME TEXT"), "",
    "An attribute of a request's span, besides those of the semantic conventions. A client's identity is in no span unless a line says so.",
    example: "otel_span_attr client.dn $ssl_client_s_dn;", trust: .none)

  package static let directives =
    [exporterLine, SpanExport.endpointLine] + SpanExport.rows.entries
    + [serviceLine, resourceLine, traceLine, contextLine, nameLine, attributeLine]

  package static let variables = [
    variable("otel_trace_id", "The ID of the trace: 32 hexadecimal digits.") { span, output in output.append(span.trace)
    },
    variable("otel_span_id", "The ID of the request's span: 16 hexadecimal digits.") { span, output in
      output.append(span.own)
    },
    variable("otel_parent_id", "The ID of the span that the client named as the parent.") { span, output in
      output.append(span.parent?.parentID ?? [])
    },
    variable("otel_parent_sampled", "`1` if the client has its trace recorded, otherwise `0`.") { span, output in
      output.append(span.parent?.isSampled == true ? 0x31 : 0x30)
    },
  ]

  private static func variable(
    _ name: String, _ help: String,
    _ append: @escaping @Sendable (RequestSpan, inout ByteBuffer) -> Void
  ) -> FeatureVariable {
    FeatureVariable(name, help) { exchange, output in
      if let span = SpanState.of(exchange)?.span { append(span, &output) }
    }
  }

  package static let sharedParts: [any SharedPart.Type] = [SpanExporter.self]
  package static let workerParts: [WorkerPart.Type] = [SpanBuffer.self]

  package static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    guard let line = exporterLine.line(in: http) else {
      for line in [serviceLine, resourceLine].compactMap({ $0.line(in: http) }) {
        builder.warning(
          line.location, "\"\(line.name)\" has no effect without \"otel_exporter\"",
          hint: "otel_exporter { endpoint http://HOST:4318; }")
      }
      return
    }
    let resource =
      [["service.name", serviceLine.text(in: http) ?? serviceLine.initial]]
      + resourceLine.lines(in: http).map { [$0.text(0), $0.text(1)] }
    builder[Block.self].export = SpanExport.read(line, resource, &builder)
  }

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> OpenTelemetry? {
    let scope = level.scope
    let context = context(scope)
    var decision: Decision?
    if let line = traceLine.line(in: scope) {
      switch line.text(0).lowercased() {
      case "off": break
      case "on": decision = .always
      default:
        let template = builder.template(line, 0)
        if template.constant != nil {
          builder.error(
            line.place(0), "invalid value \"\(line.text(0))\" in \"\(traceLine.name)\"", hint: "on, off or a variable")
        } else {
          decision = .whereOn(template)
        }
      }
      if decision != nil, builder[Block.self].export == nil {
        builder.error(
          line.location, "\"\(traceLine.name)\" without \"otel_exporter\": the spans would go nowhere",
          hint: "otel_exporter { endpoint http://HOST:4318; } in http")
      }
    }
    if context.injects, let line = contextLine.line(in: scope), othersWriteParent(scope, builder.features) {
      builder.error(
        line.location, "\"\(line.name) \(context.rawValue)\" beside \"trace_context\": both write traceparent",
        hint: "trace_context off; or otel_trace_context extract;")
    }
    guard decision != nil || context != .ignore else { return nil }
    return OpenTelemetry(
      decision: decision, context: context, name: nameLine.line(in: scope).map { builder.template($0, 0) },
      attributes: attributeLine.lines(in: scope).map { Attribute(name: $0.text(0), value: builder.template($0, 1)) })
  }

  private static func context(_ scope: Scope) -> Context {
    contextLine.text(in: scope).flatMap { Context(rawValue: $0.lowercased()) } ?? .ignore
  }

  private static func othersWriteParent(_ scope: Scope, _ features: FeatureDirectives) -> Bool {
    features.ofHTTPLocation.contains { feature in
      feature != Self.self && feature.upstreamFields(scope).contains { $0.name == "traceparent" }
    }
  }

  private static let parent = FeatureVariable("traceparent of otel", isOursAlone: true) { exchange, output in
    if let state = SpanState.of(exchange) { output.append(state.traceparent(of: exchange)) }
  }
  private static let state = FeatureVariable("tracestate of otel", isOursAlone: true) { exchange, output in
    guard SpanState.of(exchange)?.span?.parent != nil else { return }
    stateField.withUnsafeBytes { exchange.head.append(variableName: $0, to: &output) }
  }
  private static let stateField = Array("tracestate".utf8)

  package static func upstreamFields(_ scope: Scope) -> [(name: String, value: Template)] {
    if !context(scope).injects { return [] }
    return [("traceparent", parent), ("tracestate", state)].map { ($0, Template([.variable(.feature($1))])) }
  }

  // MARK: Effect

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let tracer = LiveOpenTelemetry(self, named: parts.settings.match)
    parts.objects.append(tracer)
    parts.logSteps.append(SpanStep(tracer))
  }

  package static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    FileUse.material([http[Block.self].export?.sending.trustedCertificate])
  }

  /// Looks at the CAs, which are read again for each request to the collector.
  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    if let file = http[Block.self].export?.sending.trustedCertificate {
      _ = loader.authorities(file, passwordFile: nil)
    }
  }
}

/// `otel_…` of a location in one worker.
final class LiveOpenTelemetry {
  let settings: OpenTelemetry
  /// As `location` has it.
  let locationName: [UInt8]
  /// nil: the location's name.
  let name: CompiledTemplate?
  /// By whose text a request is traced; nil: no text decides.
  let condition: CompiledTemplate?
  let attributes: [(name: String, value: CompiledTemplate)]

  init(_ settings: OpenTelemetry, named match: LocationMatch) {
    self.settings = settings
    name = settings.name?.compiled
    condition = if case .whereOn(let text)? = settings.decision { text.compiled } else { nil }
    attributes = settings.attributes.map { ($0.name, $0.value.compiled) }
    locationName =
      switch match {
      case .prefix(let path), .prefixNoRegex(let path), .exact(let path): path
      case .regex(let expression, _): Array(expression.pattern.utf8)
      case .named(let name): Array(name.utf8)
      }
  }
}

/// `otel_exporter`, and what all spans have.
package struct SpanExport: Sendable, Hashable {
  struct Sending: RowSettings, Hashable {
    /// Milliseconds.
    var interval = 5000
    var batchSize = 512
    var batchCount = 4
    /// nil: the system's CAs.
    var trustedCertificate: MaterialReference?
    var headers: [String] = []
  }

  let endpoint: SpanEndpoint
  let sending: Sending
  /// NAME VALUE, the service's name first.
  let resource: [[String]]
  @NotCompared private(set) var location: SourceLocation?

  fileprivate static let endpointLine = DirectiveEntry.local(
    "endpoint", .otelExporter, .words(1...1, "URL"),
    "The collector: http or https, verified as an upstream is. Without a path, `/v1/traces` is asked. It is required.",
    example: "endpoint https://collector.example.com:4318;", trust: .none)

  fileprivate static let rows: [Row<Sending>] = [
    .milliseconds(
      "interval", .otelExporter, \.interval, "How long a span waits to be sent at most, looked at each second.",
      example: "interval 10s;", trust: .none
    ).local(),
    .number(
      "batch_size", .otelExporter, 1...10_000, \.batchSize, "The most spans in one request, for each worker.",
      example: "batch_size 1000;", trust: .none
    ).local(),
    .number(
      "batch_count", .otelExporter, 1...1000, \.batchCount,
      "How many requests may wait for the collector. Spans beyond them are dropped and counted.",
      example: "batch_count 16;", trust: .none
    ).local(),
    .material(
      "trusted_certificate", .otelExporter, \.trustedCertificate, initial: "the system's CAs",
      "The CAs that verify the collector.", example: "trusted_certificate collector-ca.crt;", trust: .none
    ).local(),
    Row(
      .local(
        "header", .otelExporter, .words(2...2, "NAME VALUE"), "A field of the requests to the collector.",
        repeatable: true, example: "header Authorization \"Basic dXNlcjpzZWNyZXQ=\";", trust: .none)
    ) { sending, lines, builder in sending.headers = lines.compactMap { header($0, &builder) } },
  ]

  private static func header(_ line: Directive, _ builder: inout SettingsBuilder) -> String? {
    let (name, value) = (line.text(0), line.text(1))
    let isField =
      name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x3A } && !name.isEmpty
      && value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
      && !["host", "content-length", "content-type", "connection", "transfer-encoding"].contains(name.lowercased())
    if isField { return "\(name): \(value)" }
    builder.error(line.place(0), "\"\(name)\" can't be a field of the requests", hint: "header NAME VALUE;")
    return nil
  }

  fileprivate static func read(
    _ line: Directive, _ resource: [[String]], _ builder: inout SettingsBuilder
  ) -> SpanExport? {
    let scope = Scope(line.block ?? [], outer: nil)
    let written = endpointLine.line(in: scope)
    guard let endpoint = written.flatMap({ SpanEndpoint($0.text(0)) }) else {
      builder.error(
        written?.place(0) ?? line.location,
        written == nil
          ? "\"otel_exporter\" has no \"endpoint\"" : "\"\(written?.text(0) ?? "")\" is no URL of a collector",
        hint: "endpoint http://HOST:4318; or https://…, for OTLP over HTTP")
      return nil
    }
    var sending: Sending = rows.read(scope, &builder)
    sending.interval = max(100, sending.interval)
    return SpanExport(endpoint: endpoint, sending: sending, resource: resource, location: line.location)
  }
}

/// A collector's URL.
struct SpanEndpoint: Sendable, Hashable, CustomStringConvertible {
  let isTLS: Bool
  /// Lower case, an IPv6 address without brackets.
  let host: String
  let port: UInt16
  let authority: String
  let target: String

  /// Returns nil for anything else than an http or https URL.
  init?(_ text: String) {
    let isTLS = text.lowercased().hasPrefix("https://")
    guard isTLS || text.lowercased().hasPrefix("http://") else { return nil }
    let found: (host: String, port: UInt16, authority: String, target: String)
    if isTLS, let url = ACMEURL(text) {
      found = (url.host, url.port, url.authority, url.target)
    } else if !isTLS, let url = RevocationURL(text) {
      found = (url.host, url.port, url.authority, url.target)
    } else {
      return nil
    }
    self.isTLS = isTLS
    (host, port, authority) = (found.host, found.port, found.authority)
    target = found.target == "/" ? "/v1/traces" : found.target
  }

  var description: String { "\(isTLS ? "https" : "http")://\(authority)\(target)" }
}

extension DirectiveContexts {
  package static let otelExporter = DirectiveContexts(block: "otel_exporter", in: .http)
}
