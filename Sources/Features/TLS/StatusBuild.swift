import Crypto
import Forward
import Language
import Observability
import TLS
import Traffic

/// The OCSP settings of a server block: the status of clients' certificates, and the stapled response.
extension ServerTLS {
  /// How many entries a cache of clients' statuses has; 0: `off`, or an error is reported.
  static func statusCache(_ line: Directive, _ builder: inout SettingsBuilder) -> Int {
    let parts = line.text(0).split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    if parts == ["off"] { return 0 }
    guard parts.count == 3, parts[0] == "shared", !parts[1].isEmpty, let bytes = Quantity.size(parts[2]),
      (32768...(1 << 30)).contains(bytes)
    else {
      builder.error(
        line.place(0), "invalid OCSP cache \"\(line.text(0))\"", hint: "off, or shared:NAME:SIZE, SIZE at least 32k")
      return 0
    }
    return bytes / bytesPerAnswer
  }

  /// The estimated size of a cache entry: it holds two certificates, and entries of one issuer share the issuer's.
  private static var bytesPerAnswer: Int { 4096 }

  static func stapling(_ scope: Scope, _ builder: inout SettingsBuilder) -> StaplingSettings {
    guard stapling.flag(in: scope) == true else { return .off }
    if let file = builder.material(stapledFile.line(in: scope)) { return .file(file) }
    return .responder(staplingResponder.line(in: scope).flatMap { responder($0, &builder) })
  }

  static func responder(_ line: Directive, _ builder: inout SettingsBuilder) -> StatusResponder? {
    if let responder = StatusResponder(line.text(0)) { return responder }
    builder.error(
      line.place(0), "invalid URL \"\(line.text(0))\" in \"\(line.name)\"",
      hint: "http://HOST[:PORT]/PATH: OCSP responses are signed, so https is not needed")
    return nil
  }
}
