import Crypto
import Glibc
import Observability

/// The CRLs of a file, and the CRLs in use until now that none of these may replace.
struct LoadedRevocations {
  var fresh: [RevocationList]
  var kept: [RevocationList]
  var all: [RevocationList] { fresh + kept }
}

extension MaterialLoader {
  /// Loads all CRLs of all files. Neither an expired CRL nor one with a smaller number replaces the one that was in use. A CRL that the CA of
  /// its name has not signed is an error: it would refuse every certificate of that CA.
  ///
  /// `authorities`: the CAs that are known where the CRLs apply. A CRL of any other CA is accepted; verification checks
  /// its signature.
  ///
  /// `fetched`: further lists, which are verified already.
  mutating func revocations(
    _ files: [MaterialReference], of authorities: [Certificate], andSystem system: TrustAnchors? = nil,
    besides fetched: [RevocationList] = []
  ) -> [RevocationList]? {
    var lists = fetched
    var isWhole = true
    var authorities = authorities
    for file in files {
      guard let loaded = revocations(in: file, of: &authorities, andSystem: system) else {
        isWhole = false
        continue
      }
      func isDisowned(_ list: RevocationList) -> Bool { list.isDisowned(by: authorities) }
      for stranger in loaded.fresh.filter(isDisowned) {
        isWhole = false
        report(
          Diagnostic(
            .error, at: file.location,
            "\"\(file)\": the revocation list of \(stranger.issuer) is not signed by the trusted CA of that name",
            hint: "put the CA's own list in its place; where the CA has a new key, its certificate goes with it"))
      }
      // The CA may have a new key since. A CRL signed with its old key no longer applies.
      lists += loaded.fresh + loaded.kept.filter { !isDisowned($0) }
    }
    for notice in RevocationNotice.gaps(in: lists, at: files.last?.location) { report(notice) }
    return isWhole ? RevocationList.deciding(lists, among: authorities, now: Int64(time(nil))) : nil
  }

  /// `authorities`: gets those of the system that may have signed a list. Which CA signed a list says which one it may
  /// replace, so each caller's own CAs decide.
  private mutating func revocations(
    in file: MaterialReference, of authorities: inout [Certificate], andSystem system: TrustAnchors?
  ) -> LoadedRevocations? {
    let known = loadedRevocations[file]
    guard let fresh = known?.fresh ?? attempt({ () throws(MaterialError) in try RevocationList.loadAll(file) })
    else { return nil }
    let before = former.revocations[file] ?? []
    if let system { for list in fresh + before { authorities += system.named(asIssuerOf: list) } }
    let now = Int64(time(nil))
    let (_, kept) = RevocationList.taking(fresh, after: before, among: authorities, now: now)
    for notice in RevocationNotice.all(
      fresh, keeping: kept, among: authorities, in: file, expiryNotice, now: now)
    { report(notice) }
    let others = (known?.kept ?? []).filter { list in !kept.contains { $0 === list } }
    loadedRevocations[file] = LoadedRevocations(fresh: fresh, kept: kept + others)
    return LoadedRevocations(fresh: fresh, kept: kept)
  }
}
