import Crypto
import Forward
import Language
import TLS
import Traffic

/// ssl_client_pin, ssl_client_pinning and ssl_client_purpose, which nginx does not have: what a client's own certificate must
/// be, beside its chain or in place of one.
///
/// The folder is the whole feature: the directives and what they set here, and what contradicts them in `ClientTrustRule`.
/// The judgement is that of a handshake (`TLS/ClientPins`). Pins are written as those of upstreams (`SaidPin`).
enum ClientTrust: Feature {
  static let chapter = Chapter.tls
  private static let levels: DirectiveContexts = DirectiveContexts([.http, .server]).union(.everyStream)
    .union(.candidate)
  private static let pin = DirectiveEntry.list(
    "ssl_client_pin", levels, .words(1...Int.max, "[chain] PIN …"), "",
    "Pins, of which one must match the client's own certificate, in the forms of `proxy_ssl_pin`: `sha256//BASE64`, `sha256/BASE64`, `sha256:BASE64`, `spki:HEX`, `cert:HEX`, a file of certificates or public keys, a directory of certificates. With CAs, the chain must verify too; without, the pin alone counts, and nothing that the certificate says. `chain`: the key of any certificate of the verified chain can match.",
    example: "ssl_client_pin sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;", trust: .told
  ).option("--client-pin")
  private static let pinning = DirectiveEntry.value(
    "ssl_client_pinning", levels, .oneOf(["public_key", "certificate"]), "public_key",
    "What a pin must match: the key of the client's certificate, or the certificate, byte for byte. The default is `certificate` if all pins are `cert:HEX`. A certificate that is pinned by its file has its validity and usage judged, and its names count.",
    example: "ssl_client_pinning certificate;", trust: .told)
  private static let purpose = Row<ServerTLSSettings>.choice(
    "ssl_client_purpose", levels, ClientPurpose.allCases, \.clientPurpose,
    "Whether the extended key usage of a client's certificate must allow clientAuth. `any` doesn't judge it, because public CAs no longer issue such certificates; it needs `ssl_client_allow` or `ssl_client_pin`, because every customer of the CA would get in. The CAs of the chain are judged in any case.",
    example: "ssl_client_purpose any;", trust: .told)

  static let directives = [pin, pinning, purpose.entry]

  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {
    block.hasClientPins = isPinned(block.scope)
    block.linesOfTLS?.clientPins = pins(block.scope, &builder)
    [purpose].read(block.scope, into: &block.linesOfTLS, &builder)
  }

  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    builder.diagnostics += ClientTrustRule.diagnostics(block)
  }

  /// The pins in effect at a server block; nil without any.
  private static func pins(_ scope: Scope, _ builder: inout SettingsBuilder) -> PinSettings? {
    let said = Self.said(scope, &builder)
    guard !said.isEmpty else { return nil }
    return PinSettings(
      mode: mode(scope, said),
      sources: said.map {
        PinSource(spelling: $0.word.text, scope: $0.scope, folder: builder.folder, location: $0.word.location)
      })
  }

  static func isPinned(_ scope: Scope) -> Bool { pin.line(in: scope) != nil }

  // MARK: For the rules

  static func pinLine(ownOf scope: Scope) -> Directive? { pin.ownLine(in: scope) }
  static func pinningLine(_ scope: Scope) -> (inEffect: Directive?, own: Directive?) {
    (pinning.line(in: scope), pinning.ownLine(in: scope))
  }
  static func purposeLine(_ scope: Scope) -> (inEffect: Directive?, own: Directive?) {
    (purpose.line(in: scope), purpose.ownLine(in: scope))
  }

  /// The pins as written. Their faults are reported once, although each server block inherits the lines.
  private static func said(_ scope: Scope, _ builder: inout SettingsBuilder) -> [SaidPin] {
    pin.lines(in: scope).flatMap { SaidPin.all(of: $0, &builder) }
  }

  private static func mode(_ scope: Scope, _ said: [SaidPin]) -> PinningMode {
    pinning.text(in: scope).flatMap { PinningMode(rawValue: $0.lowercased()) } ?? SaidPin.standardMode(of: said)
  }
}
