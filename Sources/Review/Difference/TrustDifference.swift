import Configuration
import Features
import Language
import Loading
package import Observability
import Patterns
import TLS
package import Traffic

/// `sallyport check --diff`: what a change of configuration does to trust and access. It compares settings and the
/// files that they name, not text: order, spelling and comments make no difference.
package struct TrustDifference {
  package enum Refusal: Error, Sendable {
    /// There are changes.
    case changed
    case invalid(path: String, [Diagnostic])
  }

  /// One object. Names never change; new ones may be added.
  package func json(from old: String, to new: String) -> String {
    var json = JSONText()
    json.object { json in
      json.member("from", old)
      json.member("configuration", new)
      json.array("changes", changes) { change, json in
        json.object { json in
          json.member("effect", change.direction.heading)
          json.member("text", change.sentence)
        }
      }
    }
    return json.text
  }

  /// The object of a comparison that could not be made, because a configuration is not valid.
  package static func json(invalid path: String, _ diagnostics: [Diagnostic]) -> String {
    var json = JSONText()
    json.object { json in
      json.member("configuration", path)
      json.member("error", "the configuration is not valid")
      json.diagnostics(diagnostics)
    }
    return json.text
  }

  /// What opens first, then what closes, then the rest.
  package let changes: [TrustChange]

  package var lines: [String] {
    TrustChange.Direction.allCases.flatMap { direction -> [String] in
      let sentences = changes.filter { $0.direction == direction }.map(\.sentence)
      return sentences.isEmpty ? [] : ["\(direction.heading):"] + sentences.map { "  " + LogEscape.visible($0) }
    }
  }

  package init(from old: String, to new: String) throws(Refusal) {
    var changes = Self.changes(try ComparedConfiguration(old), try ComparedConfiguration(new))
    let uncompared = StatementCounts(path: new).uncompared(with: StatementCounts(path: old))
    if !uncompared.isEmpty {
      changes.other("this report doesn't compare these directives, which differ: \(uncompared.joined(separator: ", "))")
    }
    self.changes = changes.all
  }

  static func changes(_ old: ComparedConfiguration, _ new: ComparedConfiguration) -> TrustChanges {
    let (before, after) = (old.servers, new.servers)
    var changes = TrustChanges()
    for server in after {
      if let former = before.first(where: { $0.key == server.key }) {
        changes.append(ServerDifference(former, server).changes)
      } else if let former = server.moved(from: before, to: after) {
        // What was asked of requests is not asked of bytes.
        let sentence =
          "\(server.title) (\(server.settings.location)) is of \(server.block) now (was of \(former.block))"
        if server.isOfStream { changes.opens(sentence) } else { changes.other(sentence) }
        changes.append(ServerDifference(former, server).changes)
      } else {
        let name = "\(server.title) (\(server.settings.location)) is new: \(server.admission)"
        if server.asksForCertificate { changes.other(name) } else { changes.opens(name) }
      }
    }
    for server in before
    where !after.contains(where: { $0.key == server.key || $0.moved(from: before, to: after)?.key == server.key }) {
      changes.closes("\(server.title) is gone")
    }
    let maps = (old.http.fingerprints, new.http.fingerprints)
    if maps.0 != maps.1 { changes.other("a map, geo or split_clients has other values") }
    // The same text elsewhere has another value then.
    for name in old.http.replacedNames.symmetricDifference(new.http.replacedNames).sorted() {
      changes.other(
        new.http.replacedNames.contains(name)
          ? "$\(name) is the configuration's own (was sallyport's)"
          : "$\(name) is sallyport's (was the configuration's own)")
    }
    compareDefaults(old.http, new.http, &changes)
    return changes
  }

  /// Which server block gets the requests for names that no block of a listener has.
  private static func compareDefaults(_ old: HTTPSettings, _ new: HTTPSettings, _ changes: inout TrustChanges) {
    func name(_ listener: ListenerSettings, _ http: HTTPSettings) -> String {
      let name =
        http.servers.indices.contains(listener.defaultServer)
        ? http.servers[listener.defaultServer].primaryName : ""
      return name.isEmpty ? "(no name)" : name
    }
    for listener in new.listeners {
      guard let former = old.listeners.first(where: { $0.address == listener.address }) else { continue }
      let names = (name(former, old), name(listener, new))
      guard names.0 != names.1 else { continue }
      let things = listener.kind == .http ? "requests" : "connections"
      changes.other("\(things) for other names on \(listener.address) go to server \(names.1) (was \(names.0))")
    }
  }
}

extension TrustChange.Direction {
  fileprivate var heading: String {
    switch self {
    case .opens: "opens"
    case .closes: "closes"
    case .other: "changes"
    }
  }
}

/// One configuration with its files, as `TrustDifference` compares it.
struct ComparedConfiguration {
  let http: HTTPSettings
  let material: KeyMaterial

  init(http: HTTPSettings, material: KeyMaterial) {
    self.http = http
    self.material = material
  }

  init(_ path: String) throws(TrustDifference.Refusal) {
    let (settings, _, diagnostics) = Configuration.read(.file(path))
    guard let settings else { throw .invalid(path: path, diagnostics) }
    http = settings.http
    material = KeyMaterial(loading: settings.http, sharing: SharedState(features: Features.all))
    // With files that can't be loaded, a comparison would be silent about what they hold.
    let errors = material.diagnostics.filter { $0.severity == .error }
    guard errors.isEmpty else { throw .invalid(path: path, errors) }
  }

  /// Each server with a key of its own: two blocks with the same names and addresses count up.
  var servers: [ComparedServer] {
    var seen: [String: Int] = [:]
    return http.servers.indices.map { index in
      var server = ComparedServer(self, index)
      let count = seen[server.key, default: 0]
      seen[server.key] = count + 1
      if count > 0 { server.key += " \(count)" }
      return server
    }
  }
}

/// A server block of a compared configuration.
struct ComparedServer {
  let configuration: ComparedConfiguration
  let settings: ServerSettings
  let material: KeyMaterial.Server?
  let listeners: [ListenerSettings]
  /// By this, a block is the same one in both configurations: by its first name, or by its addresses without a name.
  var key: String
  /// The same, whatever block it stands in.
  private let place: String

  init(_ configuration: ComparedConfiguration, _ index: Int) {
    self.configuration = configuration
    settings = configuration.http.servers[index]
    material = configuration.material.servers.indices.contains(index) ? configuration.material.servers[index] : nil
    listeners = configuration.http.listeners(ofServer: index)
    let isTLS = settings.tls != nil
    place =
      "\(settings.primaryName.isEmpty ? "\(listeners.map { "\($0.address)" }.sorted())" : settings.primaryName) \(isTLS)"
    key = "\(settings.stream == nil ? TrafficKind.http : .stream) \(place)"
  }

  var isOfStream: Bool { settings.stream != nil }

  /// The block that it stands in.
  var block: String { isOfStream ? "stream" : "http" }

  /// The server block in `before` that has become this one in another block: `after` has it no more where it was.
  func moved(from before: [ComparedServer], to after: [ComparedServer]) -> ComparedServer? {
    before.first { former in
      former.isOfStream != isOfStream && former.place == place && !after.contains { $0.key == former.key }
    }
  }

  /// `server a.example`, `stream server db.example`
  var title: String { "\(isOfStream ? "stream " : "")server \(name)" }

  var name: String {
    settings.primaryName.isEmpty
      ? listeners.map { "\($0.address)" }.joined(separator: " ") : settings.primaryName
  }

  var asksForCertificate: Bool {
    switch settings.clientPolicy?.verification {
    case .on?: settings.clientPolicy?.rejection != .reportOnly
    case .off?, .optional?, .optionalNoCA?, nil: false
    }
  }

  /// Whom a new server lets in.
  var admission: String {
    guard let tls = settings.clientPolicy else { return "clients get in without TLS" }
    return switch tls.verification {
    case .on where tls.rejection == .reportOnly: "clients are verified, but nobody is refused (report only)"
    case .on: "clients must present a certificate of its CAs"
    case .optional: "clients get in with or without a certificate"
    case .optionalNoCA: "clients get in with any certificate, or with none"
    case .off: "clients are not asked for a certificate"
    }
  }
}

extension HTTPSettings {
  /// The names that sallyport alone has, and that the configuration defines itself.
  fileprivate var replacedNames: Set<String> {
    Set(slotNames.values.filter { features.variables.isOursAlone($0) })
  }

  /// Each computed variable with its name, independent of the order of the file.
  fileprivate var fingerprints: [String] {
    computed.map { "\(slotNames[$0] ?? "") \($1.fingerprint(slotNames))" }.sorted()
  }
}
