import Crypto
import Features
import Forward
import Glibc
import Observability
import Traffic

extension MaterialLoader {
  /// Loads all CRLs of all files. Neither an expired CRL nor one with a smaller number replaces the one that was in use. A CRL that the CA of
  /// its name has not signed is an error: it would refuse every certificate of that CA.
  ///
  /// `authorities`: the CAs that are known where the CRLs apply. A CRL of any other CA is accepted; verification checks
  /// its signature. In a reload, such a CRL is not used, and the one that was in use for its CA stays; if the CA itself is
  /// new, its clients are refused until its CRL is there.
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
      let own = loaded.fresh.filter { !isDisowned($0) }
      var held = loaded.kept.filter { !isDisowned($0) }
      for stranger in loaded.fresh.filter(isDisowned) {
        let fault = Diagnostic(
          .error, at: file.location,
          "\"\(file)\": the revocation list of \(stranger.issuer) is not signed by the trusted CA of that name",
          hint: "put the CA's own list in its place; where the CA has a new key, its certificate goes with it")
        let former = (former.revocations[file] ?? []).filter { $0.isOfIssuer(of: stranger) && !isDisowned($0) }
        guard !former.isEmpty || self.former.isOfSameConfiguration else {
          isWhole = false
          report(fault)
          continue
        }
        keep(UnitFiles(.revocation, file), .kept, fault, hasChanged: true)
        held += former.filter { list in
          !own.contains { $0.isOfIssuer(of: list) && $0.scope == list.scope }
            && !held.contains { $0.sha256 == list.sha256 }
        }
      }
      // What is kept for this block's CAs must be at hand in the next reload.
      let known = Set((loadedRevocations[file]?.all ?? []).map(\.sha256))
      loadedRevocations[file]?.kept += held.filter { !known.contains($0.sha256) }
      // The CA may have a new key since. A CRL signed with its old key no longer applies.
      lists += own + held
    }
    for notice in RevocationNotice.gaps(in: lists, at: files.last?.location) { report(notice) }
    return isWhole ? RevocationList.deciding(lists, among: authorities, now: Int64(time(nil))) : nil
  }

  /// `authorities`: gets those of the system that may have signed a list. Which CA signed a list says which one it may
  /// replace, so each caller's own CAs decide.
  private mutating func revocations(
    in file: MaterialReference, of authorities: inout [Certificate], andSystem system: TrustAnchors?
  ) -> LoadedRevocations? {
    let known = loadedRevocations[file], before = former.revocations[file] ?? []
    let told = diagnostics.count, now = Int64(time(nil))
    guard begin(UnitFiles(.revocation, file)) else { return nil }
    let fresh = known?.fresh ?? attempt { () throws(MaterialError) in try RevocationList.loadAll(file) } ?? []
    if let system { for list in fresh + before { authorities += system.named(asIssuerOf: list) } }
    // A file that can be loaded has a list.
    guard !fresh.isEmpty else {
      guard former.revocations[file] != nil else { return nil }
      keep(UnitFiles(.revocation, file), .kept, since: told)
      for notice in RevocationNotice.all(before, keeping: [], among: authorities, in: file, expiryNotice, now: now) {
        report(notice)
      }
      loadedRevocations[file] = LoadedRevocations(fresh: [], kept: before)
      return loadedRevocations[file]
    }
    let (_, kept) = RevocationList.taking(fresh, after: before, among: authorities, now: now)
    for notice in RevocationNotice.all(
      fresh, keeping: kept, among: authorities, in: file, expiryNotice, now: now)
    { report(notice) }
    let others = (known?.kept ?? []).filter { list in !kept.contains { $0 === list } }
    loadedRevocations[file] = LoadedRevocations(fresh: fresh, kept: kept + others)
    return LoadedRevocations(fresh: fresh, kept: kept)
  }
}
