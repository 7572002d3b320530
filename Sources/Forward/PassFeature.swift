import HTTP
package import Language
import Observability
package import Traffic
import Upstream

/// A feature that has to do with upstreams, in one of three ways or several. Each is the feature itself or nil, and the kinds of
/// features below say it for their own (`DirectiveFeature.atLocations`).
package protocol ForwardFeature: Feature {
  static var asUpstream: (any UpstreamFeature.Type)? { get }
  static var asPass: (any PassFeature.Type)? { get }
  static var asBalance: (any BalanceFeature.Type)? { get }
}

extension ForwardFeature {
  package static var ofForward: Any? { ForwardKinds(upstream: asUpstream, pass: asPass, balance: asBalance) }
  package static var asUpstream: (any UpstreamFeature.Type)? { nil }
  package static var asPass: (any PassFeature.Type)? { nil }
  package static var asBalance: (any BalanceFeature.Type)? { nil }
}

/// What a feature that has to do with upstreams is, for who has it as any feature of the list.
package struct ForwardKinds {
  let upstream: (any UpstreamFeature.Type)?
  package let pass: (any PassFeature.Type)?
  let balance: (any BalanceFeature.Type)?

  /// nil: the feature has nothing to do with upstreams.
  package static func of(_ feature: any DirectiveFeature.Type) -> Self? { feature.ofForward as? Self }
}

/// A feature whose line names an upstream for the requests of a location, or for the sessions of a server of `stream`.
package protocol UpstreamFeature: ForwardFeature {
  static var dialect: PassDialect { get }
  /// The line of the level itself that names an upstream, whose row is the feature's first; nil: there is none.
  static func line(in scope: Scope) -> Directive?
  /// The level in which its directives have the names of `proxy_pass`'s.
  static func view(_ scope: Scope) -> Scope
  /// A level says that connections to its upstream are TLS, where URLs have no scheme to say it.
  static func usesTLS(_ scope: Scope) -> Bool
  /// The lines that tell the upstream something, each by a name and a value: those in effect at a level, and the level's own.
  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive])
  /// Makes the pass of a line; nil after an error in the line.
  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass?
}

extension UpstreamFeature {
  package static var asUpstream: (any UpstreamFeature.Type)? { self }
  package static func line(in scope: Scope) -> Directive? { directives.first?.ownLine(in: scope) }
  package static func view(_ scope: Scope) -> Scope { scope }
  package static func usesTLS(_ scope: Scope) -> Bool { false }
  package static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) { ([], []) }
}

/// A feature that says something of what goes to an upstream, or comes back.
package protocol PassFeature: ForwardFeature {
  /// Reads what a level says of the way to its upstream.
  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder)
  /// Makes what hangs on the pass, once the way to the upstream is known; nil: nothing does.
  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)?
  /// The parameters that a server gets because of the directives in effect at a level, if its dialect takes parameters.
  static func parameters(_ scope: Scope) -> [PassParameter]
  /// The line by which bodies come sealed and are opened before they go to the upstream; nil: they go as they come.
  static func openingLine(_ scope: Scope) -> Directive?
  /// The field by which an upstream's response tells the feature what to do; nil: none does.
  static var instruction: UpstreamInstruction? { get }
  /// Says what a change of a pass means for whom its upstream is told of and what it gets, for `check --diff`.
  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges)
}

extension PassFeature {
  package static var asPass: (any PassFeature.Type)? { self }
  package static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {}
  package static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? { nil }
  package static func parameters(_ scope: Scope) -> [PassParameter] { [] }
  package static func openingLine(_ scope: Scope) -> Directive? { nil }
  package static var instruction: UpstreamInstruction? { nil }
  package static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {}
}

/// What a feature has at a pass: an immutable value, which all workers share.
package protocol PassPart: Sendable {
  /// Adds what the requests of the pass run. Called once in each worker.
  func compile(_ parts: inout PassParts, _ makers: LiveMakers)
  /// The files that it names.
  var fileUses: [FileUse] { get }
  /// Host names whose addresses it needs.
  var hosts: [HostUse] { get }
  /// The fields that the upstream believes for their values' sake, whoever writes them, besides those of `request.fields`.
  var toldFields: [(name: [UInt8], value: Template)] { get }
  /// What it asks of requests before they go to the upstream, for `sallyport ways`.
  var ways: LocationWays { get }
  /// How the upstream can know that the words about a client are sallyport's, in words; nil: by this part, it can't.
  var proofOfWords: String? { get }
  /// Lines of the policy that `check` prints, each with its label. `loaded`: what features have loaded.
  func policy(_ loaded: GenerationParts) -> [PassPolicyLine]
}

extension PassPart {
  package func compile(_ parts: inout PassParts, _ makers: LiveMakers) {}
  package var fileUses: [FileUse] { [] }
  package var hosts: [HostUse] { [] }
  package var toldFields: [(name: [UInt8], value: Template)] { [] }
  package var ways: LocationWays { LocationWays() }
  package var proofOfWords: String? { nil }
  package func policy(_ loaded: GenerationParts) -> [PassPolicyLine] { [] }
}

/// A line of the policy about what goes to an upstream.
package struct PassPolicyLine {
  package let label: String
  /// nil: the files that it speaks of could not be loaded.
  package let text: String?

  package init(_ label: String, _ text: String?) {
    self.label = label
    self.text = text
  }
}

extension UpstreamPass {
  /// The lines of its parts in the policy that `check` prints, in the order of `Features.all`.
  package func policy(_ loaded: GenerationParts) -> [PassPolicyLine] { parts.flatMap { $0.policy(loaded) } }

  /// Says what the parts of two passes differ in.
  package static func compareParts(
    _ old: UpstreamPass, _ new: UpstreamPass, _ features: FeatureDirectives, _ found: inout TrustChanges
  ) {
    for feature in features.ofPass(new.tcp == nil ? .http : .stream) { feature.comparePass(old, new, &found) }
  }
}

/// A pass while features read it.
package struct PassDraft {
  /// The line that names the upstream.
  package let line: Directive
  /// Where it stands, in the names of `proxy_pass`'s directives.
  package let level: Level
  package let url: PassedURL
  package let dialect: PassDialect
  package var target: PassTarget
  package var trust = PassTrust()
  package var settings = PassSettings()
  /// The names that the TLS of all connections offers by ALPN.
  package var offeredProtocols: [String] = []

  package init(_ line: Directive, _ level: Level, _ url: PassedURL, _ dialect: PassDialect) {
    self.line = line
    self.level = level
    self.url = url
    self.dialect = dialect
    target = PassTarget(url.target, uri: url.uri)
    settings.version = dialect.version ?? settings.version
  }

  package var scope: Scope { level.scope }
}

extension SettingsBuilder {
  /// Makes a pass of what all features say at its level. `parts`: what the feature of the line itself has at it.
  package mutating func pass(
    _ line: Directive, _ level: Level, _ url: PassedURL, _ dialect: PassDialect, parts: [any PassPart] = []
  ) -> UpstreamPass {
    var draft = PassDraft(line, level, url, dialect)
    let features = self.features.ofPass(level.isOfStream ? .stream : .http)
    for feature in features { feature.readPass(&draft, &self) }
    let own = level.isOfStream ? [] : self.features.ofHTTPLocation.flatMap { $0.upstreamFields(level.scope) }
    for (name, value) in own + dialect.standardFields where !draft.settings.request.sets(name) {
      draft.settings.request.fields.append(SetField(name: Array(name.utf8), value: value))
    }
    diagnostics += KeptConnectionRule.check(groups, kept: keptGroups, draft)
    if case .group(let index, _) = draft.target.upstream, groups.indices.contains(index) {
      groups[index].ways.insert(draft.settings.origin.tunnel == nil ? .direct : .proxy)
    }
    return UpstreamPass(draft, parts: parts + features.compactMap { $0.part(of: draft, &self) })
  }
}

extension UpstreamPass: ContentFeature {
  package static let chapter = Chapter.proxy
  package static let directives: [DirectiveEntry] = []
  package static let kinds: Set<TrafficKind> = [.http, .stream]
  package static let liveParts: [LivePart.Type] = [LiveGroups.self]

  /// The features that name the upstream of the level itself; more than one is an error.
  package static func naming(
    _ scope: Scope, _ features: FeatureDirectives, _ kind: TrafficKind = .http
  ) -> [any UpstreamFeature.Type] {
    features.ofUpstream(kind).filter { $0.line(in: scope) != nil }
  }

  package static func line(in scope: Scope, of features: FeatureDirectives) -> Directive? {
    naming(scope, features).first?.line(in: scope)
  }

  /// Whether requests of the level itself go to an upstream.
  package static func forwards(_ scope: Scope, _ features: FeatureDirectives) -> Bool {
    line(in: scope, of: features) != nil
  }

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    let naming = naming(level.scope, builder.features, level.isOfStream ? .stream : .http)
    if naming.count > 1, let line = naming.last?.line(in: level.scope),
      let other = Self.line(in: level.scope, of: builder.features)
    {
      builder.error(
        line.location, "\"\(line.name)\" beside \"\(other.name)\"", hint: "the other is at \(other.location)")
    }
    for feature in naming.reversed() {
      if let line = feature.line(in: level.scope), let pass = feature.pass(line, level, &builder) { return pass }
    }
    return nil
  }

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.content = CompiledPass(self, tokens: parts.settings.redirects.serverTokens, makers: makers)
  }

  package func fileUses(_ location: LocationSettings) -> [FileUse] {
    var uses = (trust.tls?.fileUses ?? []) + [.bodyFolder(of: location)] + parts.flatMap(\.fileUses)
    if let identity = trust.identity {
      uses += [identity.certificate, identity.key].compactMap { path in
        path.flatMap { FileUse.folder(before: $0, in: identity.folder, at: identity.location) }
      }
    }
    return uses
  }

  package var hosts: [HostUse] { parts.flatMap(\.hosts) }

  package var addsSlashes: Bool { true }

  package var ways: LocationWays {
    var ways = LocationWays()
    for part in parts { ways.add(part.ways) }
    if tcp == nil, !response.ignoredFields.contains(.redirect) {
      let words = "X-Accel-Redirect of the upstream"
      ways.leads.append(
        RequestLead(
          .content, to: .anywhere, words, at: location,
          if: AccessCondition(asking: .asked, .content, "a response with X-Accel-Redirect")))
    }
    return ways
  }

  package func words(_ http: HTTPSettings) -> String { "forwards to \(destination(http))" }
}

extension SettingsBuilder {
  /// Refuses a location with two sources of content. `line`: names a content that is not an upstream.
  package mutating func refuseSecondContent(at line: Directive, _ scope: Scope) {
    guard let pass = UpstreamPass.line(in: scope, of: features) else { return }
    error(
      line.location, "\"\(line.name)\" beside \"proxy_pass\": a location can have only one content handler",
      hint: "use a separate location; proxy_pass is at \(pass.location)")
  }
}
