package import Crypto
package import Observability
import Configuration
import Proxy
package import TLS

/// By what `sallyport probe` judges a server, and what it shows it: a configuration's policy towards an upstream, or
/// what the command line says.
package struct ProbePolicy {
  package let context: UpstreamTLSContext
  package let presented: Certificate?
  package let anchors: [Certificate]
  /// The proxied `HOST:PORT`, of a configuration.
  package let target: String?

  package struct Refused: Error {
    package let diagnostics: [Diagnostic]
  }

  /// What the command line says. Without `cafile` the system's anchors count.
  package struct Arguments {
    package var certificate: String?
    package var key: String?
    package var passwordFile: String?
    package var cafile: String?
    package var pins: [String] = []
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
      throw Refused(diagnostics: [error.diagnostic])
    }
    try self.init(settings, target: nil)
  }

  /// Pins of the leaf's key, as `proxy_ssl_pin` has it where no mode is said; hashes of certificates pin those.
  private static func terms(_ anchors: AnchorSettings, _ pins: [String]) -> TrustSettings {
    guard !pins.isEmpty else { return .verified(anchors, checksName: true) }
    let place = SourceLocation(file: "command line", line: 1, column: 1)
    let areCertificates = pins.allSatisfy { Pin.Spelling($0) == .certificateHash }
    let settings = PinSettings(
      mode: areCertificates ? .certificate : .publicKey,
      sources: pins.map { PinSource(spelling: $0, scope: .leaf, folder: "", location: place) })
    return .pinned(settings, anchors, checksName: true, reportsOnly: false)
  }

  private static func reference(_ text: String) throws(MaterialError) -> MaterialReference {
    try MaterialReference(parsing: text, relativeTo: "")
  }

  /// The policy of the first location of a server, by one of its names, that passes on over https; of one that passes to
  /// `authority`, where there is one.
  package init(configuration path: String, server name: String, authority: String?) throws(Refused) {
    let read: (settings: Settings, diagnostics: [Diagnostic])
    do throws(Refusal) { read = try Preparation.read(path) } catch { throw Refused(diagnostics: error.diagnostics) }
    let http = read.settings.http
    guard let index = http.servers.firstIndex(where: { $0.names.contains { $0.spelling == name } }) else {
      let names = http.servers.flatMap { $0.names.map(\.spelling) }.filter { !$0.isEmpty }
      throw Refused(diagnostics: [
        Diagnostic(
          .error, at: nil, "no server \"\(name)\" in \(path)",
          hint: names.isEmpty ? nil : "there are: \(names.joined(separator: ", "))")
      ])
    }
    let passes = http.everyLocation.filter { $0.server == index }.compactMap { entry -> ProxyPassSettings? in
      if case .proxy(let pass) = entry.settings.action, pass.tls != nil { pass } else { nil }
    }
    let pass = passes.first { $0.authority == authority } ?? passes.first
    guard let pass, let tls = pass.tls else {
      throw Refused(diagnostics: [
        Diagnostic(.error, at: nil, "server \"\(name)\" in \(path) passes nothing on over https")
      ])
    }
    try self.init(tls, target: pass.authority)
  }

  private init(_ settings: UpstreamTLSSettings, target: String?) throws(Refused) {
    let (loaded, diagnostics) = KeyMaterial.loadOne(settings)
    guard let loaded else { throw Refused(diagnostics: diagnostics) }
    context = loaded.context
    presented = loaded.material.identity?.certificate
    anchors = loaded.material.policy.anchors?.certificates ?? []
    self.target = target
  }
}

extension ProxyPassSettings {
  fileprivate var authority: String { port.isEmpty ? host : host.contains(":\(port)") ? host : "\(host):\(port)" }
}
