import Bytes
import Crypto
import DNS
import Forward
import Language
import Observability
import TLS
import Traffic
import Upstream

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
    builder[SharedStores.self].guesses = StoreUse.read(
      words, of: name, standard: .local, allowing: [.closed, .local], &builder)
  }
}

/// `shared_store`: a Redis or Valkey server that several machines share (docs/decisions/0039).
///
/// The folder has the directives. What is said to the server stands in `Support/Store`, for whoever uses a store.
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
      if let first = builder[SharedStores.self].stores[store.name] {
        builder.error(
          line.place(0), "duplicate shared_store \"\(store.name)\"", hint: "the other is at \(first.location)")
        continue
      }
      builder[SharedStores.self].stores[store.name] = store
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
          builder.refuse(word, hint: "1ms to 60s")
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
    let group = storeGroup(url, named: line.text(0), line, http, follows: follows, &builder)
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

extension SharedStore {
  /// The group with the servers of a store.
  private static func storeGroup(
    _ url: StoreURL, named name: String, _ line: Directive, _ http: Scope, follows: Bool,
    _ builder: inout SettingsBuilder
  ) -> Int {
    let address = url.authority.upstreamAddress(defaultPort: 6379)
    var server = UpstreamServerSettings(address: address, location: line.location)
    // A server that has failed is asked again: there may be no other.
    server.maxFails = 0
    var group = UpstreamGroupSettings(name: "\(name) (\(url.text))", servers: [server], location: line.location)
    group.triesFailedServers = true
    if follows {
      group.zone = "shared_store \(name)"
      group.nameResolution = NameResolutionSettings.read(http, &builder)
      if case .name(let host, let port) = address, let name = DNSName(host) {
        group.servers[0].followed = FollowedName(name: name, port: port, service: nil)
      }
      group.checkFollowed(&builder)
    }
    builder.groups.append(group)
    return builder.groups.count - 1
  }
}

extension SharedStore {
  static let liveParts: [LivePart.Type] = [LiveStores.self, StoredTickets.self]

  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    http.sharedStores.flatMap { FileUse.material([$0.passwordFile]) + ($0.tls?.fileUses ?? []) }
  }
}

extension SharedStore {
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    for file in http.sharedStores.compactMap(\.passwordFile) {
      parts[StorePasswords.self].words[file] = loader.passwords(in: file).first
    }
  }

  static func upstreamTLS(_ http: HTTPSettings) -> [UpstreamTLSSettings] { http.sharedStores.compactMap(\.tls) }
}
