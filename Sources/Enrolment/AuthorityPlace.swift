package import Crypto
import Glibc

/// Where a new authority stands: who signs its certificate, and which certificates it may sign.
package enum AuthorityPlace: Sendable {
  /// It signs its own certificate, and those of servers and clients.
  case alone
  /// It signs its own certificate, and can sign those of intermediates.
  case root
  /// Another authority signs its certificate. It may sign those of servers and clients, and of no further authority.
  case below(LocalAuthority)

  /// RFC 5280 §4.2.1.9: how many authorities may follow below.
  var pathLength: Int {
    switch self {
    case .alone, .below: 0
    case .root: 1
    }
  }
}

extension LocalAuthority {
  /// The last certificate of the authority's own file: the root that clients trust.
  package var root: Certificate { signer.chain.last ?? signer.certificate }

  /// The latest end of an intermediate's certificate. Throws when this authority may sign none.
  func endOfChild(at now: Int64) throws(AuthorityError) -> Int64 {
    let usage = store.certificate.usage
    guard usage.maySignCertificates, usage.pathLength != 0 else {
      throw AuthorityError(
        "the authority of \(store.folder.path) may sign no other authority's certificate (its path length is 0)",
        hint: "make a root for intermediates: `sallyport ca init DIR --root`")
    }
    return try end(at: now)
  }
}
