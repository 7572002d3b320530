import Traffic
import Forward
import Features
import ConfigurationSupport
import Observability
import Patterns
import Synchronization

@testable import Configuration
@testable import Language

/// How a row of the directive table is shown to be heard: two configurations that differ in its lines alone.
struct DirectiveSample {
  /// Empty: nothing is said.
  var one = ""
  var other: String
  /// What the directive needs at its own level to have a meaning.
  var beside = ""
  /// The rest of the server, and of its location.
  var listen = "listen 127.0.0.1:443 ssl;"
  var server = Self.certificate + Self.clients
  var location = Self.pass + Self.anchors + Self.name
  /// The lines are the whole configuration.
  var isWhole = false
  /// What the block `http`, or `stream`, needs.
  var http = ""

  static let certificate = "ssl_certificate c.pem; ssl_certificate_key k.pem; "
  static let pass = "proxy_pass https://u; "
  static let anchors = "proxy_ssl_trusted_certificate ca.pem; "
  static let name = "proxy_ssl_name u.test; "
  static let clients = "ssl_client_certificate ca.pem; ssl_verify_client on;"

  init(
    _ other: String, or one: String = "", beside: String = "", listen: String? = nil, server: String? = nil,
    location: String? = nil, isWhole: Bool = false, http: String = ""
  ) {
    self.one = one
    self.other = other
    self.beside = beside
    self.listen = listen ?? self.listen
    self.server = server ?? self.server
    self.location = location ?? self.location
    self.isWhole = isWhole
    self.http = http
  }

  /// The same sample for the gRPC module.
  var inGRPC: DirectiveSample {
    func renamed(_ text: String) -> String {
      text.replacing("proxy_pass http", with: "grpc_pass grpc").replacing("proxy_", with: "grpc_")
    }
    return DirectiveSample(
      renamed(other), or: renamed(one), beside: renamed(beside), listen: listen, server: server,
      location: renamed(location))
  }

  /// The same sample for a module that speaks to servers of programs, of which uwsgi's alone has TLS.
  func inModule(_ module: String) -> DirectiveSample {
    func renamed(_ text: String) -> String {
      text.replacing("proxy_pass https", with: "uwsgi_pass suwsgi").replacing(
        "proxy_pass http", with: "uwsgi_pass uwsgi"
      )
      .replacing("proxy_", with: "\(module)_")
    }
    return DirectiveSample(
      renamed(other), or: renamed(one), beside: renamed(beside), listen: listen, server: server,
      location: module == "uwsgi" ? renamed(location) : "\(module)_pass u;")
  }

  /// The same sample for `stream`, whose servers have no locations, and whose `proxy_pass` has no scheme.
  var inStream: DirectiveSample {
    func renamed(_ text: String) -> String {
      text.replacing("proxy_pass https://u;", with: "proxy_pass u; proxy_ssl on;")
        .replacing("proxy_pass http://", with: "proxy_pass ")
    }
    var sample = self
    sample.location = renamed(location)
    return sample
  }

  /// The configuration with these lines at that level.
  func text(_ lines: String, in context: DirectiveContexts) -> String {
    if isWhole { return lines }
    let server =
      context == .candidate
      ? DirectiveSample.certificate + "ssl_client_certificate today.pem; ssl_verify_client optional;" : server
    func at(_ level: DirectiveContexts) -> String { context == level ? "\(beside) \(lines)" : "" }
    // No server may stand beside it.
    let servers = lines.hasPrefix("state ") ? "" : "server 127.0.0.1:8443;"
    if !context.isDisjoint(with: [.stream, .streamServer, .streamUpstream, .streamMatch]) {
      let sample = inStream
      return """
        stream { \(http) \(at(.stream))
          upstream u { \(servers) \(at(.streamUpstream)) }
          \(context == .streamMatch ? "match m { \(at(.streamMatch)) }" : "")
          server { \(listen) \(server) \(sample.location)
            \(at(.streamServer))
          }
        }
        """
    }
    return """
      \(at(.main))
      \(context == .events ? "events { \(at(.events)) }" : "")
      http { \(http) \(at(.http))
        upstream u { \(servers) \(at(.upstream)) }
        \(context == .match ? "match m { \(at(.match)) }" : "")
        \(context == .otelExporter ? "otel_exporter { \(at(.otelExporter)) }" : "")
        \(context == .acmeIssuer ? "acme_issuer i { \(at(.acmeIssuer)) }" : "")
        server { \(listen) \(server)
          \(at(.server))
          \(context == .candidate ? "ssl_verify_candidate { \(at(.candidate)) }" : "")
          \(context == .serverIf ? "if ($arg_x) { \(at(.serverIf)) }" : "")
          location / { \(location) \(at(.location))
            \(context == .locationIf ? "if ($arg_x) { \(at(.locationIf)) }" : "")
            \(context == .limitExcept ? "limit_except GET { \(at(.limitExcept)) }" : "")
          }
        }
      }
      """
  }

  /// The settings that these lines come to, as text, or what is wrong with them.
  func settings(_ lines: String, in context: DirectiveContexts) -> Result<String, Refusal> {
    let loaded = LoadedText(text(lines, in: context), files: ["/etc/more.conf": Self.included[context] ?? ""])
    guard let settings = loaded.settings else { return .failure(Refusal(reasons: loaded.errors)) }
    return .success(Description(of: settings).text)
  }

  struct Refusal: Error, Equatable { var reasons: [String] }

  private static let included: [DirectiveContexts: String] = [
    .main: "worker_processes 3;", .events: "worker_connections 77;", .http: "send_timeout 7s;",
    .server: "send_timeout 7s;", .location: "send_timeout 7s;", .upstream: "keepalive 7;",
    .stream: "proxy_timeout 7s;", .streamServer: "proxy_timeout 7s;", .streamUpstream: "least_conn;",
  ]

  /// All that a value holds but the places where it was said.
  private struct Description {
    private(set) var text = ""
    /// By type, because to name one takes long, and to cast a value too. nil: values of the type are left out.
    private static let names = Mutex<[ObjectIdentifier: String?]>([
      ObjectIdentifier(SourceLocation.self): nil, ObjectIdentifier(FeatureDirectives.self): nil,
    ])

    init(of value: Any) { add(value) }

    private static func name(of kind: Any.Type) -> String? {
      names.withLock { names in
        if let known = names[ObjectIdentifier(kind)] { return known }
        let name = "\(kind)"
        let shown = name.hasPrefix("NotCompared<") ? nil : name
        names[ObjectIdentifier(kind)] = .some(shown)
        return shown
      }
    }

    private mutating func add(_ value: Any) {
      let kind = type(of: value)
      guard let name = Self.name(of: kind) else { return }
      if kind == RegularExpression.self, let pattern = value as? RegularExpression { return text += pattern.pattern }
      let mirror = Swift.Mirror(reflecting: value)
      guard !mirror.children.isEmpty else {
        text += mirror.displayStyle == .class ? name : String(describing: value)
        return
      }
      let before = text
      var parts: [String] = []
      for child in mirror.children {
        text = child.label.map { "\($0): " } ?? ""
        add(child.value)
        parts.append(text)
      }
      if mirror.displayStyle == .set || mirror.displayStyle == .dictionary { parts.sort() }
      text = before + "\(name)(\(parts.joined(separator: ", ")))"
    }
  }
}
