/// The certificate that a client of a comparison shows.
package enum Shown: Sendable, Hashable, CustomStringConvertible {
  case none
  /// One of a CA that some configuration names (the index of its file), with what a rule wants of it, each `KEY=VALUE`.
  case valid(authorities: Int, conditions: [String])
  case expired(authorities: Int)
  case revoked(authorities: Int)
  /// For servers alone.
  case wrongPurpose(authorities: Int)
  /// The certificate that stands in the file of CAs itself, as a pin.
  case listed(authorities: Int)
  /// Of a CA that nobody names.
  case stranger(conditions: [String])

  /// Whether nobody means to let it in.
  package var isBad: Bool {
    switch self {
    case .expired, .revoked, .wrongPurpose, .stranger: true
    case .none, .valid, .listed: false
    }
  }

  package var description: String {
    func name(_ conditions: [String]) -> String {
      conditions.isEmpty ? "" : " with " + conditions.joined(separator: " ")
    }
    return switch self {
    case .none: "no certificate"
    case .valid(_, let conditions): "a certificate of the CA" + name(conditions)
    case .expired: "an expired certificate of the CA"
    case .revoked: "a revoked certificate of the CA"
    case .wrongPurpose: "a certificate of the CA for servers alone"
    case .listed: "the certificate in the file of CAs"
    case .stranger(let conditions): "a certificate of another CA" + name(conditions)
    }
  }
}

/// How a server behind a proxy shows itself.
package enum TargetGuise: String, Sendable, Hashable, CaseIterable {
  case right = "the server itself"
  /// Another one of the same CA.
  case otherName = "a server of the same CA with another name"
  case stranger = "a server with a certificate of another CA"
}

/// A version of TLS that a client of a comparison offers alone.
package enum OfferedVersion: String, Sendable, Hashable, CaseIterable {
  case tls10 = "TLSv1", tls11 = "TLSv1.1", tls12 = "TLSv1.2", tls13 = "TLSv1.3"
}
