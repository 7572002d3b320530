package import Forward
import HTTP
package import Identity
import Language
import Observability
package import Traffic

/// client_identity, which nginx does not have: upstreams are told of the client's certificate. What it sets is part of a
/// `proxy_pass`.
enum ClientIdentity: PassFeature {
  static let chapter = Chapter.tls

  private static let row = DirectiveEntry.value(
    "client_identity", .everyHTTP,
    .words(1...Int.max, "rfc9440 | signed [key=FILE] [COMPONENT …] | xfcc | mod_ssl | off"), "off",
    "Sends the client's identity to upstreams: in Client-Cert and Client-Cert-Chain (RFC 9440), the same with a signature over the request that `client_identity_keys` lets upstreams verify (`signed`, RFC 9421), in Envoy's X-Forwarded-Client-Cert, or, to servers of FastCGI, SCGI and uwsgi, in the parameters of Apache's mod_ssl: SSL_CLIENT_VERIFY, and of a client whose chain was verified SSL_CLIENT_S_DN, SSL_CLIENT_S_DN_CN, SSL_CLIENT_I_DN, SSL_CLIENT_M_SERIAL, SSL_CLIENT_V_START, SSL_CLIENT_V_END and SSL_CLIENT_CERT. sallyport then removes all these fields from the requests of the server's clients.",
    example: "client_identity rfc9440;", trust: .told)
  static let directives = [row]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    guard let line = row.line(in: level.scope) else { return }
    builder.once { read(line, level.scope, &$0) }
  }

  private static func read(_ line: Directive, _ scope: Scope, _ builder: inout SettingsBuilder) {
    switch (IdentityFieldForm(rawValue: line.text(0).lowercased()), line.arguments.count) {
    case (.signed, _): _ = SignedIdentitySettings(line, scope, &builder)
    case (_?, 1): break
    case (_?, _): builder.refuse(line, 1, hint: "only \"\(line.name) signed\" has more words")
    case (nil, _):
      let forms = ["rfc9440", "signed", "xfcc", "mod_ssl", "off"]
      let nearest = Spelling.nearest(to: line.text(0), among: forms).map { "; did you mean \"\($0)\"?" } ?? ""
      let choice = forms.map { "\"\($0)\"" }.joined(separator: ", ")
      builder.refuse(line, 0, hint: "it must be one of \(choice)\(nearest)")
    }
  }

  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    builder.diagnostics += ClientIdentityRule.diagnostics(block, builder.features)
  }

  /// The form of the fields in effect at a level.
  static func form(_ scope: Scope) -> IdentityFieldForm {
    row.text(in: scope).flatMap { IdentityFieldForm(rawValue: $0.lowercased()) } ?? .off
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    let form = form(draft.scope)
    if form == .modSSL, draft.dialect.speaksHTTP, let line = row.line(in: draft.scope) {
      builder.error(
        line.place(0), "\"client_identity mod_ssl\" sets parameters, and \"\(draft.line.name)\" sends fields",
        hint: "client_identity rfc9440, xfcc or off in the location; \(draft.line.name) is at \(draft.line.location)")
    }
    return form
  }

  static func parameters(_ scope: Scope) -> [PassParameter] { form(scope) == .modSSL ? ModSSLParameters.all : [] }

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    let old = old.clientIdentity, new = new.clientIdentity
    if old == new { return }
    switch new {
    case .off: found.opens("the upstream is no longer told of the client's certificate (client_identity off)")
    case .signed: found.closes("the upstream gets a proof of who the client is (client_identity signed)")
    case _ where old == .signed:
      found.opens("the upstream gets no proof any more of who the client is (client_identity)")
    case .rfc9440, .xfcc, .modSSL:
      found.other("the upstream is told of the client's certificate in another form (client_identity)")
    }
  }

  /// The line in effect at a level, and the level's own.
  static func line(_ scope: Scope) -> (inEffect: Directive?, own: Directive?) {
    (row.line(in: scope), row.ownLine(in: scope))
  }
}

extension IdentityFieldForm: PassPart {
  /// The names are removed also where the pass itself tells nobody, since another server block may tell the same upstream.
  package func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    for name in makers[LiveIdentityNames.self].names.names(inServer: makers.server, to: parts.pass) {
      parts.replace(name)
    }
    if self != .off, self != .modSSL { parts.requestHooks.append(IdentityHook(self)) }
  }

  package var proofOfWords: String? { self == .signed ? "client_identity signed" : nil }

  package func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    switch self {
    case .off: []
    case .rfc9440, .signed: [PassPolicyLine("client fields", "Client-Cert, Client-Cert-Chain (RFC 9440)")]
    case .xfcc: [PassPolicyLine("client fields", "X-Forwarded-Client-Cert (Envoy)")]
    case .modSSL: [PassPolicyLine("client fields", "the parameters SSL_CLIENT_VERIFY, SSL_CLIENT_S_DN … (mod_ssl)")]
    }
  }
}

/// Tells the upstream who the client is.
private final class IdentityHook: RequestHook {
  private let form: IdentityFieldForm

  init(_ form: IdentityFieldForm) { self.form = form }

  override func addFields(to outgoing: OutgoingRequestHead, of exchange: Exchange) {
    outgoing.add(exchange.facts.identityFields(form))
  }
}

/// By which fields server blocks tell upstreams who a client is.
final class LiveIdentityNames: LivePart {
  let names: IdentityNames

  required init(_ makers: LiveMakers) {
    names = IdentityNames(makers.generation.http, makers.generation.groups)
    super.init(makers)
  }
}
