import Forward
import Observability
import Traffic

/// What signs the requests of a pass. A pass has one at most, because each replaces the fields of signatures.
protocol SigningPart: PassPart {
  /// The line that asks for it.
  var location: SourceLocation { get }
}

extension SigningPart {
  /// Reports passes whose requests two lines would sign.
  static func judgeOthers(_ servers: [ServerSettings], _ builder: inout SettingsBuilder) {
    for server in servers {
      server.root.visitNested { location in
        let signing = location[UpstreamPass.self]?.parts.compactMap { $0 as? any SigningPart } ?? []
        guard signing.count > 1, let own = signing.first(where: { $0 is Self }),
          let other = signing.first(where: { !($0 is Self) })
        else { return }
        let diagnostic = Diagnostic(
          .error, at: own.location, "the requests of one location would be signed twice",
          hint:
            "remove one of the two, the other is at \(other.location); message_signature_components can cover client-cert"
        )
        if !builder.diagnostics.contains(diagnostic) { builder.diagnostics.append(diagnostic) }
      }
    }
  }
}
