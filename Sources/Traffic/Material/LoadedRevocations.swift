package import Crypto
package import TLS

/// The CRLs of a file, and the CRLs in use until now that none of these may replace.
package struct LoadedRevocations {
  package var fresh: [RevocationList]
  package var kept: [RevocationList]
  package var all: [RevocationList] { fresh + kept }

  package init(fresh: [RevocationList], kept: [RevocationList]) {
    self.fresh = fresh
    self.kept = kept
  }
}

/// A revocation list that is fetched, and what a generation has of it.
package struct FetchedSource: Sendable {
  package let url: RevocationURL
  /// The file that keeps the list.
  package let file: MaterialReference
  package let fetch: RevocationFetch
  /// Whether a certificate named the URL, not the configuration.
  package let isLearned: Bool
  /// The CAs that may have signed it.
  package var signers: [Certificate]
  /// The entity tag of the list in the file.
  package var tag: String?
  /// The lists that no older one may replace.
  package var held: [RevocationList]

  package var path: String { if case .path(let path) = file.spelling { path } else { "" } }

  package init(
    url: RevocationURL, file: MaterialReference, fetch: RevocationFetch, isLearned: Bool, signers: [Certificate],
    tag: String?, held: [RevocationList]
  ) {
    self.url = url
    self.file = file
    self.fetch = fetch
    self.isLearned = isLearned
    self.signers = signers
    self.tag = tag
    self.held = held
  }
}
