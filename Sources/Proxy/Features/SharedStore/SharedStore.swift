package import Crypto
import DNS
import Language
package import Observability
package import TLS
import Upstream

/// `shared_store`: a Redis or Valkey server that several machines share, for what is short-lived: counts of limits, nonces,
/// keys of session tickets (docs/decisions/0039).
///
/// The folder is the whole feature: the directive and what it sets here, what is said to the server in `StoreClient`, the
/// scripts that decide there in `StoreScript`, and how the server stands in `StoreRecord`. Who uses a store says so in
/// its own folder, by `StoreUse`.
package struct SharedStoreSettings: Sendable, Hashable {
  package let name: String
  /// `redis://HOST:PORT/DATABASE`, for messages.
  package let address: String
  /// Index in `HTTPSettings.groups`: its servers, whose names are resolved as those of upstreams are.
  package let group: Int
  /// nil: in clear.
  package let tls: UpstreamTLSSettings?
  /// The name by which its certificate is verified.
  package let host: String
  package let user: String?
  package let passwordFile: MaterialReference?
  package let database: Int
  /// Milliseconds that a request waits for one answer.
  package let timeout: Int
  /// Whether nobody between this machine and the server can read what is said: TLS, a unix socket, or this machine.
  package let isPrivate: Bool
  @NotCompared package var location: SourceLocation
}

/// What a limit or a check takes of a store: `store=NAME [fail=open | closed | local]`.
package struct StoreUse: Sendable, Hashable {
  /// What counts while the store can't be asked.
  package enum Failing: String, Sendable, Hashable, CaseIterable {
    /// The request passes.
    case open
    /// The request is refused.
    case closed
    /// This process decides by what it knows itself.
    case local
  }

  package let store: String
  package let failing: Failing

  /// Says what a change means. `what`: what is in the store.
  static func compare(_ what: String, _ old: StoreUse?, _ new: StoreUse?, _ found: inout TrustChanges) {
    switch (old, new) {
    case (let old?, nil): found.opens("\(what) are no longer shared with other machines (store \(old.store))")
    case (nil, let new?): found.closes("\(what) are shared with other machines (store \(new.store))")
    case (let old?, let new?):
      if old.store != new.store { found.other("\(what) are in the store \(new.store) (was \(old.store))") }
      if old.failing != new.failing {
        found.other("\(what), while the store can't be asked: \(new.failing.rawValue) (was \(old.failing.rawValue))")
      }
    case (nil, nil): break
    }
  }
}

/// `enrolment_failures_store`: the wrong passwords of all machines count together.
enum GuessStore: Feature {
  static let chapter = Chapter.passwords
  private static let name = "enrolment_failures_store"

  static let directives: [DirectiveEntry] = [
    .local(
      name, .http, .words(1...2, "NAME [fail=closed|local]"),
      "The `shared_store` in which the wrong passwords that `enrolment_failures` limits count for all machines, those of"
        + " `auth_basic` with the same file too. While it can't be asked, this process counts (`fail=local`, which needs no"
        + " saying) or requests get 503 (`closed`). Not in nginx.",
      example: "enrolment_failures_store main;", trust: .told)
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    guard let line = http.own(name).first else { return }
    var words = line.arguments
    if let first = words.first { words[0] = Word("store=\(first.text)", at: first.location) }
    builder.guessStore = builder.storeUse(words, of: name, standard: .local, allowing: [.closed, .local])
  }
}

enum SharedStore: Feature {
  static let chapter = Chapter.limits
  private static let name = "shared_store"
  private static let usage =
    "NAME redis://HOST[:PORT][/DATABASE] | rediss://HOST[:PORT][/DATABASE] | unix:PATH [user=NAME] [password_file=FILE] [trusted_certificate=FILE] [pin=PIN] [certificate=FILE key=FILE] [timeout=TIME] [resolve]"

  static let directives: [DirectiveEntry] = [
    .local(
      name, .http, .words(2...10, usage),
      "A Redis (from version 6) or Valkey server that several machines share. `rediss` is TLS, verified by the"
        + " system's CAs, by those of `trusted_certificate` or by a pin, and by the name. A request waits for an answer"
        + " for `timeout` at most, 250ms unless said; what happens without one, each use says by `fail=`. `resolve`"
        + " follows the name in DNS by `resolver`.",
      repeatable: true, example: "shared_store main rediss://redis.example.com:6380 password_file=redis.password;",
      trust: .told)
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in http.own(name) {
      guard let store = read(line, http, &builder) else { continue }
      if let first = builder.stores[store.name] {
        builder.error(
          line.place(0), "duplicate shared_store \"\(store.name)\"", hint: "the other is at \(first.location)")
        continue
      }
      builder.stores[store.name] = store
    }
  }

  private static func read(_ line: Directive, _ http: Scope, _ builder: inout SettingsBuilder) -> SharedStoreSettings? {
    let errors = builder.diagnostics.count
    guard let url = StoreURL(line.text(1)) else {
      builder.error(
        line.place(1), "invalid address \"\(line.text(1))\" in \"\(name)\"",
        hint: "redis://HOST:PORT, rediss://HOST:PORT or unix:PATH; a password stands in password_file=")
      return nil
    }
    var user: String?
    var password, trusted, certificate, key: MaterialReference?
    var pins: [PinSource] = []
    var timeout = 250
    var follows = false
    for (index, word) in line.arguments.enumerated().dropFirst(2) {
      let (option, value) = word.text.splitAtEquals
      func file() -> MaterialReference? {
        builder.reference(line, Word(value ?? "", at: line.arguments[index].location), isKey: option == "key")
      }
      switch (option, value) {
      case ("user", let value?) where !value.isEmpty: user = value
      case ("password_file", _?): password = file()
      case ("trusted_certificate", _?) where url.isTLS: trusted = file()
      case ("certificate", _?) where url.isTLS: certificate = file()
      case ("key", _?) where url.isTLS: key = file()
      case ("pin", let value?) where url.isTLS:
        let spelt = Word(value, at: word.location)
        if let fault = PinSpellingRule.diagnostic(spelt, of: name, folder: builder.folder) {
          builder.diagnostics.append(fault)
        }
        pins.append(PinSource(spelling: value, scope: .leaf, folder: builder.folder, location: word.location))
      case ("timeout", let value?):
        guard let time = Quantity.milliseconds(value), (1...60_000).contains(time) else {
          builder.error(word.location, "invalid parameter \"\(word.text)\"", hint: "1ms to 60s")
          continue
        }
        timeout = time
      case ("resolve", nil): follows = true
      default:
        builder.error(
          word.location, "invalid parameter \"\(word.text)\" in \"\(name)\"",
          hint: url.isTLS
            ? "user=, password_file=, trusted_certificate=, pin=, certificate=, key=, timeout= and resolve"
            : "user=, password_file=, timeout= and resolve; what is of TLS needs rediss://")
      }
    }
    if user != nil, password == nil {
      builder.error(line.location, "\"user\" of \"\(name)\" without a password", hint: "password_file=FILE")
    }
    if (certificate == nil) != (key == nil) {
      builder.error(
        line.location, "\"\(name)\" has a \(certificate == nil ? "key" : "certificate") alone",
        hint: "certificate=FILE key=FILE")
    }
    var tls: UpstreamTLSSettings?
    if url.isTLS {
      var settings = UpstreamTLSSettings()
      let anchors = AnchorSettings(file: trusted, includesSystem: trusted == nil)
      let pinned = PinSettings(mode: .publicKey, sources: pins)
      settings.trust =
        switch (pins.isEmpty, trusted) {
        case (true, _): .verified(anchors, checksName: true)
        case (false, nil): .pinnedLeaf(pinned, nil, checksName: false)
        case (false, _?): .pinned(pinned, anchors, checksName: true, reportsOnly: false)
        }
      settings.verifyDepth = 8
      settings.sendsServerName = true
      settings.certificate = certificate.map { CertificateSource(certificate: $0, key: key) }
      settings.location = line.location
      tls = settings
    } else if !url.isNear, password != nil {
      builder.warning(
        line.location, "the password of \"\(name) \(line.text(0))\" goes over the network in clear",
        hint: "rediss://\(url.text.dropFirst("redis://".count))")
    }
    let group = builder.storeGroup(url, named: line.text(0), line, http, follows: follows)
    guard builder.diagnostics.dropFirst(errors).allSatisfy({ $0.severity != .error }) else { return nil }
    return SharedStoreSettings(
      name: line.text(0), address: url.text, group: group, tls: tls, host: url.host, user: user,
      passwordFile: password, database: url.database, timeout: timeout, isPrivate: url.isTLS || url.isNear,
      location: line.location)
  }
}

/// Where a store is.
private struct StoreURL {
  let authority: Authority
  let isTLS: Bool
  let database: Int
  let text: String

  init?(_ text: String) {
    self.text = text
    if text.hasPrefix("unix:") {
      guard let authority = try? Authority(parsing: text) else { return nil }
      (self.authority, isTLS, database) = (authority, false, 0)
      return
    }
    let scheme = text.hasPrefix("rediss://") ? "rediss://" : "redis://"
    guard text.hasPrefix(scheme) else { return nil }
    let parts = text.dropFirst(scheme.count).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let host = parts.first, !host.contains("@"), let authority = try? Authority(parsing: String(host)),
      case .host = authority
    else { return nil }
    if parts.count > 1, !parts[1].isEmpty {
      guard let number = Quantity.number(String(parts[1])), number <= 65_535 else { return nil }
      database = number
    } else {
      database = 0
    }
    (self.authority, isTLS) = (authority, scheme == "rediss://")
  }

  var host: String { if case .host(let host, _) = authority { host } else { "localhost" } }

  /// On this machine.
  var isNear: Bool {
    guard case .host(let host, _) = authority else { return true }
    return host == "localhost" || host.hasPrefix("127.") || host == "::1"
  }
}

extension SettingsBuilder {
  /// The group with the servers of a store.
  fileprivate mutating func storeGroup(
    _ url: StoreURL, named name: String, _ line: Directive, _ http: Scope, follows: Bool
  ) -> Int {
    let address = url.authority.upstreamAddress(defaultPort: 6379)
    var server = UpstreamServerSettings(address: address, location: line.location)
    // A server that has failed is asked again: there may be no other.
    server.maxFails = 0
    var group = UpstreamGroupSettings(name: "\(name) (\(url.text))", servers: [server], location: line.location)
    group.triesFailedServers = true
    if follows {
      group.zone = "shared_store \(name)"
      group.nameResolution = nameResolution(http)
      if case .name(let host, let port) = address, let name = DNSName(host) {
        group.servers[0].followed = FollowedName(name: name, port: port, service: nil)
      }
      checkFollowed(group)
    }
    groups.append(group)
    return groups.count - 1
  }

  /// Reads `store=` and `fail=` among the words of a line. `failing`: what counts without `fail=`.
  mutating func storeUse(
    _ words: some Sequence<Word>, of directive: String, standard failing: StoreUse.Failing,
    allowing allowed: [StoreUse.Failing] = StoreUse.Failing.allCases
  ) -> StoreUse? {
    var (store, mode): (Word?, Word?)
    for word in words {
      switch word.text.splitAtEquals.name {
      case "store": store = word
      case "fail": mode = word
      default: break
      }
    }
    var use = failing
    if let mode {
      let hint = allowed.map { "fail=\($0.rawValue)" }.joined(separator: ", ")
      guard let said = mode.text.splitAtEquals.value.flatMap({ StoreUse.Failing(rawValue: $0) }), allowed.contains(said)
      else {
        error(mode.location, "invalid parameter \"\(mode.text)\" in \"\(directive)\"", hint: "\(hint)")
        return nil
      }
      guard store != nil else {
        error(mode.location, "\"\(mode.text)\" without \"store=\" in \"\(directive)\"", hint: "store=NAME")
        return nil
      }
      use = said
    }
    guard let store else { return nil }
    guard kind == .http else {
      error(store.location, "\"store=\" in \"stream\": only limits of \"http\" have a store", hint: "leave it out")
      return nil
    }
    let name = store.text.splitAtEquals.value ?? ""
    guard stores[name] != nil else {
      error(
        store.location, "\"\(directive)\" names the store \"\(name)\", which no \"shared_store\" declares",
        hint: "shared_store \(name.isEmpty ? "NAME" : name) redis://HOST:PORT;")
      return nil
    }
    return StoreUse(store: name, failing: use)
  }
}
