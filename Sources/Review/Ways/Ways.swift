import Configuration
import Crypto
import Forward
import Language
package import Observability
import SPIFFE
import TLS
package import Traffic
import Upstream

/// `sallyport ways`: every way to each upstream and each content of a configuration, who passes, and what is told of them.
///
/// The ways are found in the settings alone (`WaySearch`). What has run against the live objects has a witness. What neither
/// the settings nor a witness decides is unknown; it is never nobody.
package struct Ways {
  /// One thing that ways lead to.
  package struct Destination {
    /// The upstream or the content, in words.
    package let words: String
    package let kind: WayContent.Kind
    /// The weakest first.
    package fileprivate(set) var ways: [(way: Way, witness: WayWitness?)]
    /// Who could tell the upstream about clients besides this configuration; empty for other contents.
    package let telling: [String]
    /// Those that ask for less than another one to the same path; none where the ways of one client are asked for.
    let uneven: [UnevenWays.Uneven]
    /// Those of locations that ask for less than most others.
    let lesser: [UnevenWays.Uneven]
  }

  /// Which ways are shown.
  package struct Selection {
    /// An upstream, a URL, a path of a location, or words of a content; nil: all.
    package var to: String?
    /// A file with a certificate, or a subject; nil: everybody.
    package var who: String?

    package init(to: String? = nil, who: String? = nil) {
      self.to = to
      self.who = who
    }
  }

  package let http: HTTPSettings
  package private(set) var destinations: [Destination] = []
  /// false: there are more leads than were followed.
  package let isComplete: Bool
  private let names: IdentityNames

  /// `world`: by which ways are tried; nil: no way gets a witness.
  package init(_ http: HTTPSettings, trying world: TrialWorld?, _ selection: Selection = Selection()) throws(WaysFault)
  {
    self.http = http
    let search = WaySearch(http)
    isComplete = search.isComplete
    names = IdentityNames(http, [])
    let reaches = UpstreamReaches(http, [])
    var order: [String] = []
    var groups: [String: [Way]] = [:]
    for way in search.ways {
      if groups[way.content.key] == nil { order.append(way.content.key) }
      groups[way.content.key, default: []].append(way)
    }
    let personas = try Self.personas(selection.who, world)
    let wanted = selection.to.map { Target($0, http) }
    let witnesses = world.map { WitnessSearch($0) }
    for key in order {
      guard let ways = groups[key], let first = ways.first else { continue }
      let chosen = ways.filter { wanted?.takes($0, http) ?? true }
      var tried: [(way: Way, witness: WayWitness?)] = []
      for way in chosen {
        let witness = witnesses?.witness(of: way, byAnyOf: personas)
        if personas != nil, witness == nil { continue }
        tried.append((way, witness))
      }
      guard !tried.isEmpty else { continue }
      let sorted = tried.enumerated().sorted { one, other in
        let (a, b) = (one.element.way, other.element.way)
        if a.openness != b.openness { return a.openness < b.openness }
        if a.strength != b.strength { return a.strength < b.strength }
        return one.offset < other.offset
      }
      let uneven = personas == nil ? UnevenWays(ways, http) : nil
      func shown(_ found: [UnevenWays.Uneven]?) -> [UnevenWays.Uneven] {
        (found ?? []).filter { wanted?.takes($0.way, http) ?? true }
      }
      destinations.append(
        Destination(
          words: first.content.words, kind: first.content.kind, ways: sorted.map(\.element),
          telling: telling(ways, reaches), uneven: shown(uneven?.found), lesser: shown(uneven?.lesser)))
    }
    destinations = destinations.enumerated().sorted { one, other in
      let (a, b) = (one.element.openness, other.element.openness)
      return a == b ? one.offset < other.offset : a < b
    }.map(\.element)
  }

  /// Those of a configuration file, or of standard input (`-`). `isTried`: each way is tried.
  package init(_ path: String, _ selection: Selection = Selection(), isTried: Bool = true) throws(WaysFault) {
    let source = ConfigurationSource(path)
    if isTried {
      let world: TrialWorld
      let domains = selection.who.flatMap { try? SPIFFEID(parsing: $0) }.map { Set([$0.trustDomain]) } ?? []
      do throws(TrialWorld.Refusal) { world = try TrialWorld(source, domains: domains) } catch {
        throw WaysFault(error.text, error.diagnostics)
      }
      try self.init(world.http, trying: world, selection)
    } else {
      let (loaded, _, found) = Configuration.read(source, looksUpNames: false)
      guard let settings = loaded else { throw WaysFault("configuration \(source.phrase) is not valid", found) }
      try self.init(settings.http, trying: nil, selection)
    }
  }

  /// The clients of `--who`; nil: whoever comes.
  private static func personas(_ who: String?, _ world: TrialWorld?) throws(WaysFault) -> [Persona]? {
    guard let who else { return nil }
    if who == "nobody" { return [.nobody] }
    guard let world else { return [] }
    if let id = try? SPIFFEID(parsing: who) {
      return world.authorities(named: "\(id.trustDomain)").map { index in
        var persona = Persona(who, subject: [NamePart("CN", "workload")], issuer: .authority(index))
        persona.alternativeNames = [.uri(who)]
        return persona
      }
    }
    if let subject = NamePart.parse(who), who.contains("=") {
      return world.authorities.indices.map { Persona(who, subject: subject, issuer: .authority($0)) }
    }
    do throws(MaterialError) {
      let certificates = try Certificate.loadAll(MaterialReference(path: who), passwords: [])
      return [Persona(who, issuer: .file(certificates))]
    } catch {
      throw WaysFault(
        "--who \"\(who)\": \(error.message); write a file with a certificate, a subject as CN=NAME, a SPIFFE ID, or nobody"
      )
    }
  }

  // MARK: What upstreams are told

  private func telling(_ ways: [Way], _ reaches: UpstreamReaches) -> [String] {
    guard let pass = ways.lazy.compactMap({ $0.location[UpstreamPass.self] }).first else { return [] }
    let reach = reaches.reach(of: pass)
    let told = names.names(toldTo: reach).map { String(decoding: $0, as: UTF8.self) }
    guard !told.isEmpty else { return ["the upstream is not told who a client is"] }
    let isWritten = ways.contains { !written(by: $0).isEmpty }
    var lines = [
      "the upstream is told who a client is in \(told.joined(separator: ", "))"
        + (isWritten ? ", which a client may write itself, as above" : ": no client's own field goes there")
    ]
    let passes = ways.compactMap { $0.location[UpstreamPass.self] }
    let proofs = passes.map { $0.parts.compactMap(\.proofOfWords).first }
    if let proof = proofs.first ?? nil, proofs.allSatisfy({ $0 != nil }) {
      lines.append("signed: \(proof); the upstream can refuse what others tell it")
    } else if passes.allSatisfy({
      $0.trust.tls?.certificate != nil || $0.trust.tls?.workloadIdentity != nil || $0.trust.identity != nil
    }) {
      lines.append("could be forged by whoever reaches the upstream, unless it asks for sallyport's certificate")
    } else {
      lines.append("could be forged by whoever reaches the upstream itself")
    }
    return lines
  }

  /// The names of the fields by which a way tells its upstream who the client is.
  package func told(by way: Way) -> [String] {
    way.location[UpstreamPass.self].map { pass in names.names(toldBy: pass).map { String(decoding: $0, as: UTF8.self) }
    }
      ?? []
  }

  /// The fields by which other ways tell the upstream who the client is, and which this way fills with what the client may
  /// write.
  package func written(by way: Way) -> [String] {
    guard let pass = way.location[UpstreamPass.self] else { return [] }
    let told = Set(names.names(inServer: way.server, to: pass).map(Self.folded))
    if told.isEmpty { return [] }
    let own = Set(names.names(toldBy: pass).map(Self.folded))
    let fields = pass.request.fields.flatMap { field in field.candidates.map { (name: field.name, value: $0) } }
    return (fields + pass.parts.flatMap(\.toldFields)).filter { name, value in
      told.contains(Self.folded(name)) && !own.contains(Self.folded(name)) && value.uses { $0.isOfClient }
    }.map { "\(String(decoding: $0.name, as: UTF8.self)) from \($0.value.text(http.slotNames))" }
  }

  /// Upstreams may take `-` and `_` for the same.
  private static func folded(_ name: [UInt8]) -> String {
    String(decoding: name, as: UTF8.self).lowercased().replacing("_", with: "-")
  }

  // MARK: Which

  /// What `--to` names.
  private struct Target {
    private let text: String
    private let url: (host: String, path: String)?

    init(_ text: String, _ http: HTTPSettings) {
      self.text = text
      let scheme = ["https://", "http://"].first { text.lowercased().hasPrefix($0) }
      // An upstream is spelled as a URL, too: a group or an address that the configuration names is one.
      let isUpstream = http.everyLocation.contains { $0.settings[UpstreamPass.self]?.destination(http) == text }
      url = scheme.flatMap { scheme in
        if isUpstream { return nil }
        let rest = text.dropFirst(scheme.count)
        let end = rest.firstIndex(of: "/") ?? rest.endIndex
        let host = rest[..<end].split(separator: ":").first.map(String.init) ?? ""
        return (host.lowercased(), end == rest.endIndex ? "/" : String(rest[end...].prefix { $0 != "?" }))
      }
    }

    func takes(_ way: Way, _ http: HTTPSettings) -> Bool {
      if let url {
        let server = http.servers[way.server]
        let names = server.names.map(\.asWritten)
        let isNamed =
          names.contains(url.host) || names.contains { $0.hasPrefix("*.") && url.host.hasSuffix($0.dropFirst()) }
        let isDefault = http.listeners[way.listener].defaultServer == way.server
        guard isNamed || isDefault else { return false }
        if case .location(let found) = PathSearch().find(Array(url.path.utf8), in: server.root.locations) {
          return found === way.location || found.withNested.contains { $0 === way.location }
        }
        return way.location === server.root
      }
      if way.content.words == text || way.location.match.asWritten == text { return true }
      guard let pass = way.location[UpstreamPass.self] else { return way.content.words.contains(text) }
      if case .group(let index, _) = pass.target.upstream, http.groups.indices.contains(index) {
        return http.groups[index].name == text || http.groups[index].servers.contains { "\($0.address)" == text }
      }
      // Variables can name it.
      return true
    }
  }
}

/// Why there is nothing to show.
package struct WaysFault: Error, Sendable {
  package let text: String
  package let diagnostics: [Diagnostic]

  init(_ text: String, _ diagnostics: [Diagnostic] = []) {
    self.text = text
    self.diagnostics = diagnostics
  }
}

extension Ways.Destination {
  /// That of the weakest way.
  package var openness: Way.Openness { ways.first?.way.openness ?? .nobody }
}

extension Variable {
  /// A client may choose the value, or what the configuration makes of it.
  fileprivate var isOfClient: Bool {
    switch self {
    case .argument, .requestField, .cookie, .capture, .escapedCapture, .slot, .settable, .belowFolder: true
    case .simple(let variable):
      [.args, .query_string, .uri, .document_uri, .request_uri, .request, .request_method, .host].contains(variable)
    default: false
    }
  }
}
