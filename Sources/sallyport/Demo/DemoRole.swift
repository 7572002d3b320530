import Crypto
import Glibc

/// The roles of the demo's certificates.
enum DemoRole: String, CaseIterable {
  case server, echo, client, expired
  case notYetValid = "not-yet-valid"
  case revoked
  case wrongCA = "wrong-ca"

  static let upstreamName = "echo.demo.internal"
  /// The CA may certify it, so only the name is wrong for whoever asks for another one.
  static let wrongName = "wrong-name.demo.internal"
  private static let day: Int64 = 86_400
  private static let daysValid: Int64 = 90

  /// Whether the certificate is one to try as a client.
  var isClient: Bool { self != .server && self != .echo }
  /// The status of the proxy's response to this certificate.
  var status: Int { self == .client ? 200 : 400 }

  var commonName: String {
    switch self {
    case .server: "localhost"
    case .echo: Self.upstreamName
    case .client: "demo client"
    case .expired, .notYetValid, .revoked, .wrongCA: "\(rawValue) client"
    }
  }

  /// `names`: those of the server's certificate.
  func builder(_ names: [DemoName]) -> CertificateBuilder {
    let days = Self.daysValid
    var builder: CertificateBuilder
    switch self {
    case .server:
      return CertificateBuilder(
        commonName: commonName, .leaf([.serverAuth]), names: names.map(\.alternative), days: days)
    case .echo:
      return CertificateBuilder(commonName: commonName, .leaf([.serverAuth]), names: [.dns(commonName)], days: days)
    case .client:
      builder = CertificateBuilder(
        commonName: commonName, .leaf([.clientAuth]), names: [.email("client@demo.internal")], days: days)
    case .expired, .notYetValid, .revoked, .wrongCA:
      builder = CertificateBuilder(commonName: commonName, .leaf([.clientAuth]), days: days)
    }
    builder.subject.insert((.organization, "sallyport demo"), at: 0)
    if self == .expired {
      builder.notBefore -= 30 * Self.day
      builder.notAfter = builder.notBefore + 29 * Self.day
    } else if self == .notYetValid {
      builder.notBefore += 30 * Self.day
      builder.notAfter += 30 * Self.day
    }
    return builder
  }

  /// Whether a certificate still fits its role, and will for a while.
  func fits(_ certificate: Certificate, authority: Certificate, names: [DemoName]) -> Bool {
    let soon = Int64(time(nil)) + DemoFiles.daysLeft * Self.day
    guard authority.issued(certificate) != (self == .wrongCA) else { return false }
    switch self {
    case .expired: return certificate.notAfter.hasEnded(at: Int64(time(nil)))
    case .notYetValid: return !certificate.notBefore.hasBegun(at: soon)
    case .server:
      let shown = Set(certificate.subjectAltNames.all.map(\.description))
      return !certificate.notAfter.hasEnded(at: soon) && shown == Set(names.map(\.text))
    case .echo, .client, .revoked, .wrongCA: return !certificate.notAfter.hasEnded(at: soon)
    }
  }
}
