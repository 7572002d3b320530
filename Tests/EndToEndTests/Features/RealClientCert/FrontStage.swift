import Bytes
import Crypto
import TestSupport

/// How a front writes a client's certificate into a field.
enum FrontField: String, CaseIterable, Sendable {
  case rfc9440, xfcc, pem, alb, der

  /// The words of `real_client_cert_header`.
  var header: String {
    switch self {
    case .rfc9440: "Client-Cert rfc9440"
    case .xfcc: "X-Forwarded-Client-Cert xfcc"
    case .pem: "X-Client-Cert pem"
    case .alb: "X-Amzn-Mtls-Clientcert pem"
    case .der: "Cf-Client-Cert-Der-Base64 der"
    }
  }

  var name: String { header.split(separator: " ").first.map(String.init) ?? "" }

  /// The fields, each a name and a value. `others`: what the client sends with its certificate.
  func fields(_ leaf: Certificate, _ others: [Certificate] = []) -> [(name: String, value: String)] {
    let pem = ([leaf] + others).map(\.pem).joined()
    switch self {
    case .rfc9440:
      let chain = others.map { ":\(Base64.encode($0.der)):" }.joined(separator: ", ")
      return [("Client-Cert", ":\(Base64.encode(leaf.der)):")] + (chain.isEmpty ? [] : [("Client-Cert-Chain", chain)])
    case .xfcc:
      let leaf = Self.escaped(leaf.pem), chain = Self.escaped(pem)
      return [(name, #"By=spiffe://lb;Hash=00;Cert="\#(leaf)";Chain="\#(chain)";Subject="CN=x\"y";URI="#)]
    case .pem: return [(name, Self.escaped(pem))]
    case .alb: return [(name, Self.escaped(pem, except: "+=/"))]
    case .der: return [(name, Base64.encode(leaf.der))]
    }
  }

  func fields(_ shown: CertifiedKey) -> [(name: String, value: String)] { fields(shown.certificate, shown.chain) }

  /// curl's words for the fields.
  func curl(_ shown: CertifiedKey) -> [String] { fields(shown).flatMap { ["-H", "\($0.name): \($0.value)"] } }

  static func escaped(_ text: String, except safe: String = "") -> String {
    text.utf8.map { byte in
      let isSafe =
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        || "-._~".utf8.contains(byte) || safe.utf8.contains(byte)
      return isSafe ? String(UnicodeScalar(byte)) : "%" + Hex.encode([byte], .upper)
    }.joined()
  }
}

/// A daemon that takes the word of fronts about its clients, in front of an upstream that says what it was sent.
struct FrontedProxy: Sendable {
  let scene: Scene
  let daemon: Sallyport
  let upstream: ScriptedUpstream
  /// With TLS, and without.
  let port: UInt16, plain: UInt16

  /// The lines of a server that verifies clients by ca.pem.
  static func clients(_ verify: String) -> String { "ssl_client_certificate ca.pem; ssl_verify_client \(verify);" }

  static let locations = """
    location / { proxy_pass UPSTREAM; proxy_http_version 1.1; client_identity rfc9440;
      proxy_set_header X-DN $ssl_client_s_dn; proxy_set_header X-Front $ssl_front_s_dn;
      add_header X-Verify $ssl_client_verify always; add_header X-CN $ssl_client_s_dn_cn always;
      add_header X-Verdict $ssl_client_verdict always; add_header X-Raw "$http_client_cert$http_x_client_cert" always; }
    location /alice { ssl_client_allow cn=alice; proxy_pass UPSTREAM; }
    location /bare { proxy_pass UPSTREAM; proxy_set_header X-Other here; }
    """

  /// `fronts`: words of `real_client_cert_from`, each a line.
  init(
    _ scene: Scene, verify: String = "on", fronts: [String] = ["127.0.0.1"], field: FrontField = .rfc9440,
    http: String = "", server: String = "", locations: String = Self.locations, isPlain: Bool = false
  ) async throws {
    self.scene = scene
    upstream = try ScriptedUpstream.echo(scene)
    (port, plain) = try (scene.port(), scene.port())
    daemon = try await Sallyport.serve(
      scene,
      http + "\n"
        + Self.server(
          port, isPlain ? plain : nil, verify, fronts, field, server,
          locations.replacing("UPSTREAM", with: "http://127.0.0.1:\(upstream.port)")))
  }

  static func server(
    _ port: UInt16, _ plain: UInt16?, _ verify: String, _ fronts: [String], _ field: FrontField, _ lines: String,
    _ locations: String
  ) -> String {
    """
    server {
      listen 127.0.0.1:\(port) ssl; \(plain.map { "listen 127.0.0.1:\($0);" } ?? "") http2 on; server_name localhost;
      ssl_certificate server.pem; ssl_certificate_key server.key; \(clients(verify))
      underscores_in_headers on; ignore_invalid_headers off;
      \(fronts.map { "real_client_cert_from \($0);" }.joined(separator: " ")) real_client_cert_header \(field.header);
      \(lines)
      \(locations)
    }
    """
  }
}
