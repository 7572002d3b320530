import Crypto
import Observability
import TLS
import Language

/// Builds the OCSP settings of a server block: the status of clients' certificates, and the stapled response.
extension SettingsBuilder {
  mutating func clientStatus(_ scope: Scope) -> ClientStatusSettings {
    var status = ClientStatusSettings()
    status.extent = scope.text("ssl_ocsp").flatMap { ClientStatusSettings.Extent(rawValue: $0.lowercased()) } ?? .off
    status.responder = responder(scope.value("ssl_ocsp_responder"))
    guard let line = scope.value("ssl_ocsp_cache") else { return status }
    let parts = line.text(0).split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    if parts == ["off"] { return status }
    guard parts.count == 3, parts[0] == "shared", !parts[1].isEmpty, let bytes = Quantity.size(parts[2]),
      (32768...(1 << 30)).contains(bytes)
    else {
      error(
        line.place(0), "invalid OCSP cache \"\(line.text(0))\"", hint: "off, or shared:NAME:SIZE, SIZE at least 32k")
      return status
    }
    status.cacheEntries = bytes / Self.bytesPerAnswer
    return status
  }

  /// The estimated size of a cache entry: it holds two certificates, and entries of one issuer share the issuer's.
  private static var bytesPerAnswer: Int { 4096 }

  mutating func stapling(_ scope: Scope) -> StaplingSettings {
    guard scope.flag("ssl_stapling") == true else { return .off }
    if let file = material(scope.value("ssl_stapling_file")) { return .file(file) }
    return .responder(responder(scope.value("ssl_stapling_responder")))
  }

  private mutating func responder(_ directive: Directive?) -> StatusResponder? {
    guard let directive else { return nil }
    guard let responder = StatusResponder(directive.text(0)) else {
      error(
        directive.place(0), "invalid URL \"\(directive.text(0))\" in \"\(directive.name)\"",
        hint: "http://HOST[:PORT]/PATH: OCSP responses are signed, so https is not needed")
      return nil
    }
    return responder
  }
}
