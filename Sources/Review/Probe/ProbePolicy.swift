import Configuration
package import Crypto
import Features
import Forward
import Loading
import Negotiation
package import Observability
package import TLS
import Traffic
package import Transport
import Upstream

/// The policy by which `sallyport probe` judges a server, and the certificate it presents. Both come from a
/// configuration's upstream policy or from the command line.
package struct ProbePolicy {
  package let context: UpstreamTLSContext
  package let presented: Certificate?
  package let anchors: [Certificate]
  /// The `HOST:PORT` of a configuration's `proxy_pass`: the name of an upstream group or of a server.
  package let target: String?
  /// The name that the configuration expects (`proxy_ssl_name`); nil when a request decides it.
  package let name: String?
  /// Whether the proxy sends that name as SNI (`proxy_ssl_server_name`).
  package let tellsName: Bool
  /// What is said inside TLS.
  package let speech: ProbeSpeech
  /// How its connections begin.
  package let origin: ConnectionOrigin
  /// The servers of the proxied group, or the one proxied server; empty when a request decides it.
  package let servers: [Server]

  /// One `server` of an upstream group.
  package struct Server: Sendable {
    /// As configured: `HOST:PORT`, `unix:/path`.
    package let spelling: String
    let address: UpstreamAddress

    /// `HOST:PORT`, which a proxy on the way gets.
    package var authority: String { address.description }

    /// Resolves the address now, and blocks; empty when the name has no address.
    package var addresses: [SocketAddress] {
      switch address {
      case .address(let address): [address]
      case .name(let name, let port): Resolver.addresses(of: name, port: port)
      }
    }
  }

  package struct Refused: Error {
    package let diagnostics: [Diagnostic]
  }

  /// The options of the command line. Without `cafile`, the system's trust anchors apply.
  package struct Arguments {
    package var certificate: String?
    package var key: String?
    package var passwordFile: String?
    package var cafile: String?
    package var pins: [String] = []
    /// What is said before TLS and inside it.
    package var speech = ProbeSpeech.http1
    /// The proxy on the way.
    package var proxy: ProbeProxy?
    package init() {}
  }

  package init(_ arguments: Arguments) throws(Refused) {
    var settings = UpstreamTLSSettings()
    do throws(MaterialError) {
      settings.verifyDepth = 9
      settings.sendsServerName = true
      let file = try arguments.cafile.map(Self.reference)
      settings.trust = Self.terms(AnchorSettings(file: file, includesSystem: file == nil), arguments.pins)
      settings.passwordFile = try arguments.passwordFile.map(Self.reference)
      if let certificate = arguments.certificate {
        settings.certificate = CertificateSource(
          certificate: try Self.reference(certificate), key: try arguments.key.map(Self.reference))
      }
    } catch {
      throw Refused(diagnostics: [arguments.inOptions(error.diagnostic)])
    }
    do throws(Refused) {
      try self.init(settings, of: nil, in: nil, speech: arguments.speech, through: arguments.proxy?.tunnel)
    } catch {
      throw Refused(diagnostics: error.diagnostics.map { arguments.inOptions($0) })
    }
  }

  /// Makes pins of the leaf's key, as `proxy_ssl_pin` does without a mode. If all pins are hashes of certificates, they
  /// pin certificates.
  private static func terms(_ anchors: AnchorSettings, _ pins: [String]) -> TrustSettings {
    guard !pins.isEmpty else { return .verified(anchors, checksName: true) }
    let place = SourceLocation(file: Arguments.place, line: 1, column: 1)
    let areCertificates = pins.allSatisfy { Pin.Spelling($0) == .certificateHash }
    let settings = PinSettings(
      mode: areCertificates ? .certificate : .publicKey,
      sources: pins.map { PinSource(spelling: $0, scope: .leaf, folder: "", location: place) })
    return .pinned(settings, anchors, checksName: true, reportsOnly: false)
  }

  private static func reference(_ text: String) throws(MaterialError) -> MaterialReference {
    try MaterialReference(parsing: text, relativeTo: "")
  }

  /// Takes the policy of the first location that proxies over https in the server of that name. If some location
  /// proxies to `authority`, takes that location's.
  package init(configuration path: String, server name: String, authority: String?) throws(Refused) {
    let read: (settings: Settings, diagnostics: [Diagnostic])
    do throws(Refusal) { read = try Preparation.read(path, sharing: SharedState(features: Features.all)) } catch {
      throw Refused(diagnostics: error.diagnostics)
    }
    let http = read.settings.http
    guard let index = http.servers.firstIndex(where: { $0.names.contains { $0.asWritten == name } }) else {
      let names = http.servers.flatMap { $0.names.map(\.asWritten) }.filter { !$0.isEmpty }
      throw Refused(diagnostics: [
        Diagnostic(
          .error, at: nil, "no server \"\(name)\" in \(path)",
          hint: names.isEmpty ? nil : "there are: \(names.joined(separator: ", "))")
      ])
    }
    let passes = http.everyLocation.filter { $0.server == index }.compactMap { entry -> UpstreamPass? in
      if let pass = entry.settings[UpstreamPass.self], pass.trust.tls != nil { pass } else { nil }
    }
    let pass =
      passes.first { $0.authority(in: http) == authority }
      ?? passes.first { pass in Self.servers(of: pass, in: http).contains { $0.spelling == authority } } ?? passes.first
    guard let pass, let tls = pass.trust.tls else {
      throw Refused(diagnostics: [
        Diagnostic(.error, at: nil, "server \"\(name)\" in \(path) passes nothing on over TLS")
      ])
    }
    try self.init(tls, of: pass, in: http)
  }

  static func servers(of pass: UpstreamPass, in http: HTTPSettings) -> [Server] {
    guard case .group(let index, _) = pass.target.upstream, http.groups.indices.contains(index) else { return [] }
    return http.groups[index].servers.filter { !$0.isDown }.map {
      Server(spelling: $0.address.description, address: $0.address)
    }
  }

  init(
    _ settings: UpstreamTLSSettings, of pass: UpstreamPass?, in http: HTTPSettings?,
    speech: ProbeSpeech = .http1, through tunnel: TunnelSettings? = nil
  ) throws(Refused) {
    let (loaded, diagnostics) = KeyMaterial.loadOne(settings)
    guard let loaded else { throw Refused(diagnostics: diagnostics) }
    context = loaded.context
    presented = loaded.material.identity?.certificate
    anchors = loaded.material.policy.anchors?.certificates ?? []
    tellsName = settings.sendsServerName
    self.speech = pass?.probeSpeech ?? speech
    var origin = pass.map { $0.origin.ofOwnConnections($0.origin.fixed) } ?? ConnectionOrigin()
    do throws(MaterialError) { origin.proxy = try (pass?.origin.tunnel ?? tunnel)?.resolved() } catch {
      throw Refused(diagnostics: [error.diagnostic])
    }
    self.origin = origin
    target = if let pass, let http { pass.authority(in: http) } else { nil }
    name = pass?.trust.name.constant.map { UpstreamPass.nameForTLS($0) }
    if let pass, let http { servers = Self.servers(of: pass, in: http) } else { servers = [] }
  }
}

extension UpstreamPass {
  /// The group or server as the configuration names it: in HTTP, the value of Host.
  func authority(in http: HTTPSettings) -> String {
    if tcp != nil, case .group(let index, _) = target.upstream, http.groups.indices.contains(index) {
      return http.groups[index].name
    }
    let (host, port) = (target.host, target.port)
    return port.isEmpty ? host : host.contains(":\(port)") ? host : "\(host):\(port)"
  }

  var probeSpeech: ProbeSpeech {
    guard let tcp else {
      switch version {
      case .http2: return .http2
      // A server of uwsgi has no question that a refusal answers.
      case .wire: return .nothing
      default: return .http1
      }
    }
    guard let opening = tcp.opening, opening.goal == .tls else { return .nothing }
    return .negotiated(opening.kind)
  }
}

extension ProbeSpeech {
  /// The scheme of a server's URL. Those of protocols that begin in clear are their names.
  package var scheme: String {
    switch self {
    case .http1, .http2: "https"
    case .negotiated(let kind): kind.rawValue
    case .nothing: "tls"
    }
  }

  package var isHTTP: Bool { scheme == "https" }
}
