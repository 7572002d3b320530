import Bytes
import Configuration
import Crypto
import Features
import Forward
import Loading
import Logging
package import Observability
import Synchronization
import TLS
import Traffic
import Transport

/// `sallyport check --explain`: what the daemon would do with one request, in lines.
///
/// It loads the configuration as `run` does, and runs the request through the objects that serve (`RequestExplanation`).
/// No listener is bound, no log is opened, no upstream is contacted.
package struct Explanation {
  /// Why there is no explanation.
  package struct Refusal: Error, Sendable {
    package let text: String
    package let diagnostics: [Diagnostic]

    init(_ text: String, _ diagnostics: [Diagnostic] = []) {
      self.text = text
      self.diagnostics = diagnostics
    }

    /// One object, in place of that of an explanation.
    package func json(_ words: String, configuration path: String) -> String {
      var json = JSONText()
      json.object { json in
        json.member("configuration", path)
        json.member("request", words)
        json.member("error", text)
        json.diagnostics(diagnostics)
      }
      return json.text
    }
  }

  /// One thing that happens to the request.
  private struct Step: Sendable {
    let label: String
    let text: String
    /// The policy of the upstream that the request goes to.
    let policy: [PolicyLine]
  }

  private let steps: [Step]
  private let words: String
  private let path: String

  package var lines: [String] {
    steps.flatMap { step in [Self.line(step.label, step.text)] + step.policy.map(\.description) }
  }

  /// One object. Names never change; new ones may be added.
  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("configuration", path)
      json.member("request", words)
      json.member("status", steps.last { $0.label == "status" }.flatMap { Int($0.text.prefix(while: \.isNumber)) })
      json.array("steps", steps) { step, json in
        json.object { json in
          json.member("label", step.label.trimmingPrefix { $0 == " " }.description)
          json.member("text", step.text)
          if !step.policy.isEmpty { PolicyReport.append(step.policy, named: "policy", to: &json) }
        }
      }
    }
    return json.text
  }

  /// `words`: `METHOD URL`, a URL for GET, or `TCP HOST:PORT` for a connection to a server of `stream`. `certificate`: a file with the client's certificate, and those that it
  /// sends with it. `address`: where the client connects from. `fields`: lines `Name: value`.
  package init(
    of words: String, certificate: String?, from address: String?, fields: [String], configuration path: String
  ) throws(Refusal) {
    var request = try Self.request(words)
    request.fields = fields
    for field in fields where !field.contains(":") || field.contains(where: \.isNewline) {
      throw Refusal("--header \"\(field)\": it must be NAME: VALUE")
    }
    if let address {
      guard let literal = SocketAddress(literal: address, port: 40_000) else {
        throw Refusal("--from \"\(address)\": it must be an IPv4 or IPv6 address")
      }
      request.client = literal
    }
    if request.kind == .stream, !fields.isEmpty {
      throw Refusal("--header belongs to a request, and \"\(words)\" has none")
    }
    if let certificate {
      guard request.usesTLS || request.kind == .stream else {
        throw Refusal("--cert needs a URL of https: clients show certificates over TLS only")
      }
      do throws(MaterialError) {
        request.certificates = try Certificate.loadAll(MaterialReference(path: certificate), passwords: [])
      } catch {
        throw Refusal("--cert: \(error.message)")
      }
    }
    let shared = SharedState(features: Features.all)
    let trace = ExplainTrace()
    let (generation, material) = try Self.load(path, sharing: shared, trace)
    do throws(RequestExplanation.Refusal) {
      let stage = try RequestExplanation.Stage(generation, sharing: shared, trace)
      try withExtendedLifetime(stage) { () throws(RequestExplanation.Refusal) in
        try RequestExplanation(request, on: stage).run()
      }
    } catch {
      switch error {
      case .noListener(let text), .malformed(let text), .system(let text): throw Refusal(text)
      }
    }
    self.words = words
    self.path = path
    steps = trace.lines.map { line in
      var policy: [PolicyLine] = []
      if case .upstream(_, let content)? = line.fact, let pass = content as? UpstreamPass {
        policy = EffectivePolicy(of: pass, generation.http, material).lines
      }
      return Step(label: line.label, text: line.text, policy: policy)
    }
  }

  private static func line(_ label: String, _ text: String) -> String {
    label + String(repeating: " ", count: max(1, 14 - label.count)) + LogEscape.visible(text)
  }

  // MARK: The request

  /// `source`: what messages say before the words, and none of it without one.
  static func request(_ words: String, of source: String = "--explain ") throws(Refusal) -> ExplainedRequest {
    let parts = words.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
    guard (1...2).contains(parts.count), let url = parts.last else {
      throw Refusal(
        "\(source)\"\(words)\": it must be METHOD URL, as 'GET https://example.com/path', or 'TCP db.example.com:5432'"
      )
    }
    if parts.count == 2, parts[0] == "TCP", !url.contains("/") { return try connection(to: url) }
    let method = parts.count == 2 ? parts[0] : "GET"
    let isToken = method.utf8.allSatisfy { byte in (0x41...0x5A).contains(byte) || byte == 0x2D }
    guard isToken else { throw Refusal("\(source)\"\(words)\": \"\(method)\" is not a method") }
    let usesTLS = url.lowercased().hasPrefix("https://")
    guard usesTLS || url.lowercased().hasPrefix("http://") else {
      throw Refusal("\(source)\"\(url)\": the URL must begin with https:// or http://")
    }
    let rest = url.dropFirst(usesTLS ? 8 : 7)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
    let tail = rest[end...].prefix { $0 != "#" }
    guard let server = try? HostPort(String(rest[..<end])), !server.host.isEmpty, !server.host.contains("@") else {
      throw Refusal("\"\(url)\": there is no host that can be read")
    }
    return ExplainedRequest(
      method: method, usesTLS: usesTLS, host: server.host, port: server.port ?? (usesTLS ? 443 : 80),
      target: tail.hasPrefix("/") ? String(tail) : "/\(tail)", client: .ipv4(address: 0x7F00_0001, port: 40_000))
  }

  private static func connection(to words: String) throws(Refusal) -> ExplainedRequest {
    guard let server = try? HostPort(words), !server.host.isEmpty, let port = server.port else {
      throw Refusal("\"\(words)\": it must be HOST:PORT, as 'TCP db.example.com:5432'")
    }
    return ExplainedRequest(
      connectionTo: server.host, port: port, client: .ipv4(address: 0x7F00_0001, port: 40_000))
  }

  // MARK: The configuration

  static func load(
    _ path: String, sharing shared: SharedState, _ trace: ExplainTrace
  ) throws(Refusal) -> (Generation, KeyMaterial) {
    let (loaded, _, found) = Configuration.read(path: path)
    guard let settings = loaded else { throw Refusal("the configuration is not valid", found) }
    let material = KeyMaterial(loading: settings.http, sharing: shared)
    let errors = material.diagnostics.filter { $0.severity == .error }
    guard errors.isEmpty else { throw Refusal("the configuration is not valid", errors) }
    let hosts = HostResolution(settings.http, former: nil, by: shared.resolver)
    let resolution = Resolution.resolve(settings.http.groups, by: shared.resolver)
    for diagnostic in hosts.diagnostics + resolution.diagnostics { trace.add("note", diagnostic.message) }
    let log = ErrorLog([ErrorLogSink(level: .info, handler: TraceLog(trace))])
    let generation = Generation(
      number: 1, http: settings.http, serverContexts: material.servers.map { $0?.context },
      upstreamContexts: material.upstreams.mapValues(\.context), groups: resolution.groups, errorLog: log,
      errorLogs: [:], accessLogs: [:],
      hosts: hosts.found,
      parts: material.parts)
    return (generation, material)
  }
}

/// The error log of an explanation: the reasons that the daemon would log are lines of the trace.
private struct TraceLog: LogHandler {
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace
  private let trace: ExplainTrace

  init(_ trace: ExplainTrace) { self.trace = trace }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var text = "\(event.message)"[...]
    if text.hasPrefix("*") { text = text.drop { $0 != " " }.dropFirst() }
    // The rest tells of the client and the request, which the caller of `--explain` has named.
    if let end = text.firstRange(of: ", client: ") { text = text[..<end.lowerBound] }
    trace.add("log", String(text))
  }
}
