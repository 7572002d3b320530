import Bytes
import Crypto
import Forward
import Language
import Observability
import TLS
import Traffic

/// `ssl_crl`, `ssl_crl_fetch` and `ssl_crl_cache`.
extension ServerTLS {
  /// Builds the files of `ssl_crl`, and what is fetched.
  static func revocation(_ scope: Scope, _ builder: inout SettingsBuilder) -> (
    files: [MaterialReference], fetch: RevocationFetch
  ) {
    var files: [MaterialReference] = []
    var fetch = RevocationFetch()
    let cache = revocationCache.line(in: scope)
    if let cache { readCache(cache, &fetch, &builder) }
    for line in revocationList.lines(in: scope) {
      for (index, word) in line.arguments.enumerated() {
        if !RevocationURL.isURL(word.text) {
          if let file = builder.material(line, at: index) { files.append(file) }
        } else if let url = url(word, &builder), let folder = fetch.folder {
          let path = "\(folder)/\(FetchedList.name(url, isLearned: false))"
          let file = MaterialReference(path: path, keeping: url.description, location: word.location)
          fetch.lists.append(RevocationFetch.NamedList(url, file: file))
        } else if cache == nil {
          missingCache(word.location, "\"ssl_crl \(word.text)\"", &builder)
        }
      }
    }
    if let line = revocationFetch.line(in: scope) {
      fetch.points = points(line, &builder)
      if fetch.points != .none, cache == nil { missingCache(line.location, "\"ssl_crl_fetch\"", &builder) }
    }
    return (files, fetch)
  }

  private static func missingCache(_ location: SourceLocation, _ culprit: String, _ builder: inout SettingsBuilder) {
    builder.error(
      location, "\(culprit) needs \"ssl_crl_cache\": without a kept list, no client could get in after a restart",
      hint: "ssl_crl_cache FOLDER; a folder that the serving user may write")
  }

  private static func url(_ word: Word, _ builder: inout SettingsBuilder) -> RevocationURL? {
    let url = RevocationURL(word.text)
    if url == nil {
      builder.error(
        word.location, "invalid URL \"\(word.text)\" in \"ssl_crl\"",
        hint: "http://HOST[:PORT]/PATH: lists are signed, so https is not needed")
    }
    return url
  }

  private static func readCache(_ line: Directive, _ fetch: inout RevocationFetch, _ builder: inout SettingsBuilder) {
    if let folder = builder.material(line), case .path(let path) = folder.spelling {
      fetch.folder = path
    } else {
      builder.error(
        line.place(0), "invalid folder \"\(line.text(0))\" in \"ssl_crl_cache\" directive", hint: "name a folder")
    }
    guard line.arguments.count > 1 else { return }
    let name = "refresh="
    guard line.text(1).hasPrefix(name), let time = Quantity.seconds(String(line.text(1).dropFirst(name.count))),
      (1...31_536_000).contains(time)
    else {
      builder.error(
        line.place(1), "invalid parameter \"\(line.text(1))\" in \"ssl_crl_cache\" directive",
        hint: "refresh=TIME, 1s to 1y, such as refresh=10m")
      return
    }
    fetch.refresh = time
  }

  private static func points(_ line: Directive, _ builder: inout SettingsBuilder) -> RevocationFetch.Points {
    let words = line.arguments.map { $0.text.lowercased() }
    if words == ["off"] { return .none }
    if words == ["on"] { return .anywhere }
    var hosts: [RevocationFetch.Host] = []
    for (index, word) in words.enumerated() {
      // The reading of a URL's authority: the names are compared with it.
      guard word != "on", word != "off", let parsed = RevocationURL("http://\(word)"), parsed.target == "/",
        let parts = try? HostPort(word)
      else {
        builder.error(
          line.place(index), "invalid host \"\(line.text(index))\" in \"ssl_crl_fetch\" directive",
          hint: "on, off, or the hosts that publish the lists: HOST or HOST:PORT")
        continue
      }
      hosts.append(RevocationFetch.Host(name: parsed.host, port: parts.port))
    }
    // A word that is no host never widens what may be fetched.
    return .hosts(hosts)
  }
}
