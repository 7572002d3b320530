package import Identity

/// In which fields an upstream is told of the client's certificate, in words.
extension IdentityFieldForm {
  /// The names of the fields, for the policy that `check` prints; nil: there are none.
  package var fieldsInWords: String? {
    switch self {
    case .off: nil
    case .rfc9440: "Client-Cert, Client-Cert-Chain (RFC 9440)"
    case .xfcc: "X-Forwarded-Client-Cert (Envoy)"
    }
  }

  package static func compare(_ old: Self, _ new: Self, _ found: inout TrustChanges) {
    if old == new { return }
    switch new {
    case .off: found.opens("the upstream is no longer told of the client's certificate (client_identity off)")
    case .rfc9440, .xfcc:
      found.other("the upstream is told of the client's certificate in another form (client_identity)")
    }
  }
}
