import Crypto
import Features
import Forward
import Glibc
import Observability
import TLS
import Traffic

extension MaterialLoader {
  /// Returns the fetched lists that apply to clients of these CAs.
  ///
  /// A list that is missing or damaged is only a warning, and never weakens a check: the server block refuses every client
  /// whose CA has no list. A list that was in use stays.
  mutating func fetchedRevocations(_ fetch: RevocationFetch, of authorities: [Certificate]) -> [RevocationList] {
    guard let folder = fetch.folder else { return [] }
    var lists: [RevocationList] = []
    for named in fetch.lists {
      lists += take(named.file, of: named.url, fetch, isLearned: false, signers: authorities)
    }
    guard fetch.points != .none else { return lists }
    let names = (try? namesInDirectory(folder)) ?? []
    for name in names.filter({ FetchedList.isLearned($0) }).prefix(RevocationPoints.limit) {
      let path = "\(folder)/\(name)"
      guard let entry = FetchedList(at: MaterialReference(path: path)),
        name == FetchedList.name(entry.url, isLearned: true), fetch.admits(entry.url)
      else { continue }
      let file = MaterialReference(path: path, keeping: entry.url.description, location: nil)
      // A CA of the same name that only another server block trusts.
      lists += take(file, of: entry.url, fetch, isLearned: true, signers: [entry.issuer], entry).filter {
        !$0.isDisowned(by: authorities)
      }
    }
    return lists
  }

  private mutating func take(
    _ file: MaterialReference, of url: RevocationURL, _ fetch: RevocationFetch, isLearned: Bool,
    signers: [Certificate], _ found: FetchedList? = nil
  ) -> [RevocationList] {
    if loadedRevocations[file] == nil {
      let entry = found ?? FetchedList(at: file)
      let usable = entry.flatMap { $0.url == url ? $0 : nil }
      let fresh = usable.map { [$0.list] } ?? []
      let former = former.revocations[file] ?? []
      let now = Int64(time(nil))
      let kept = fresh.isEmpty ? former : RevocationList.taking(fresh, after: former, among: signers, now: now).kept
      if fresh.isEmpty, kept.isEmpty {
        report(
          Diagnostic(
            .warning, at: file.location,
            "\"\(file)\": the revocation list has not been fetched yet: clients of its CA are refused until it came",
            hint: "the error log says why a request failed; `curl -I \(url)` shows what the server says"))
      }
      for notice in RevocationNotice.all(
        fresh, keeping: kept, among: signers, in: file, expiryNotice, now: now, isFetched: true)
      { report(notice) }
      loadedRevocations[file] = LoadedRevocations(fresh: fresh, kept: kept)
      fetched[file] = FetchedSource(
        url: url, file: file, fetch: fetch, isLearned: isLearned, signers: [], tag: usable?.tag, held: fresh + kept)
    }
    let known = Set(fetched[file]?.signers ?? [])
    fetched[file]?.signers += signers.filter { !known.contains($0) }
    // OpenSSL verifies the signature of a list when it uses it. This leaves out what the CA of another server made.
    return (loadedRevocations[file]?.all ?? []).filter { $0.signer(among: signers) != nil }
  }
}

extension FetchedList {
  /// Returns nil when there is no such file, or it can't be used. Blocks.
  init?(at file: MaterialReference) {
    guard let bytes = try? file.read(expecting: .revocation, onlyRegular: true) else { return nil }
    self.init(bytes)
  }
}

extension HTTPSettings {
  /// The folders that keep fetched lists, each once.
  package var revocationFolders: Set<String> {
    Set(servers.compactMap { $0.tls?.revocationFetch }.filter(\.isOn).compactMap(\.folder))
  }
}
