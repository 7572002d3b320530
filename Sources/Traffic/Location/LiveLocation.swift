package import Identity
package import Observability
package import Patterns

/// One location in one worker: its settings, compiled into the steps of the phases and the content that an exchange runs.
public final class LiveLocation {
  package let settings: LocationSettings
  package let steps: PhaseSteps
  /// What a server block does before a location is found; empty but for its root.
  let serverEntry: ServerEntry
  let hasNoSteps: Bool
  /// What sessions of `stream` run before their content.
  let rulesOfSessions: [SharedStep]
  package let content: LiveContent
  package let inner: LocationTree
  package let hasInner: Bool
  /// nil: every client may enter.
  package let clientRules: ClientRules?
  /// The identity of `clientRules`, without a reference. A session remembers the rules that admitted it.
  package let rules: ObjectIdentifier?
  /// What happens to the heads of responses, in nginx's order.
  package let headFilters: [HeadFilter]
  let changesFields: Bool
  package let errorLog: ErrorLog
  package let logSteps: [LogStep]
  let hasLogSteps: Bool
  /// What is told of the clients of a server block.
  package let watches: [ClientWatch]
  package let entrance: LocationEntrance?
  package let errorResponder: ErrorResponder?
  package let denialResponder: DenialResponder?
  /// Whether the content is the location's own, not that of the location around an `if`.
  let hasOwnContent: Bool
  /// What features' variables ask for.
  package let objects: [AnyObject]
  /// The error log says which variables of `set` have no value.
  package let warnsOfUnset: Bool
  /// The Content-Type of texts.
  package let types: TypeSettings
  /// What happens to the responses that leave here: those of the content, then those of the location, in nginx's order.
  package let filters: [ResponseFilter]
  package let interimHooks: [InterimHook]
  package let policy: ResponsePolicy
  package var limits: LocationLimits { settings.limits }

  /// `outer`: for an `if` or a `limit_except`, the content of the location around it, and its rewrite steps, of which the
  /// exchange runs the rest in an `if`.
  package init(
    settings: LocationSettings, makers: LiveMakers, isRoot: Bool = false,
    outer: (content: LiveContent, rewrite: [PhaseStep])? = nil
  ) {
    self.settings = settings
    self.policy = ResponsePolicy(settings.limits)
    var parts = LocationParts(settings, isOfServer: isRoot)
    for feature in makers.shared.features.ofLocation { feature.compile(settings, &parts, makers) }
    self.serverEntry = parts.server
    if let outer { parts.steps.rewrite = outer.rewrite }
    let steps = makers.trace.map { $0.tracing(parts.steps) } ?? parts.steps
    self.steps = steps
    self.hasNoSteps = steps.isEmpty
    let rules = parts.steps.ofSessions
    self.rulesOfSessions = makers.trace.map { $0.tracing(rules) } ?? rules
    let isEmpty = settings.content == nil
    let named = isEmpty ? Self.fallback(parts.fallback, outer: outer?.content) : parts.content
    let own = named ?? LiveContent()
    let isInherited = isEmpty && own !== parts.fallback
    let content = isInherited ? own : makers.trace.map { ExplainedContent(own, $0) } ?? own
    self.content = content
    self.types = parts.types
    self.warnsOfUnset = parts.warnsOfUnset
    self.hasOwnContent = !isEmpty
    for block in parts.blocks {
      block.didCompile(LiveLocation(settings: block.settings, makers: makers, outer: (content, block.rewrite)))
    }
    self.entrance = parts.entrance
    self.errorResponder = parts.errorResponder
    self.denialResponder = parts.denialResponder
    let inner = settings.locations.map { LiveLocation(settings: $0, makers: makers) }
    self.inner = LocationTree(inner)
    self.hasInner = !inner.isEmpty
    self.clientRules = parts.clientRules
    self.rules = parts.clientRules.map { ObjectIdentifier($0) }
    self.headFilters = parts.headFilters
    self.changesFields = !parts.headFilters.isEmpty
    self.errorLog = parts.errorLog ?? makers.generation.errorLog
    self.logSteps = parts.logSteps
    self.hasLogSteps = !parts.logSteps.isEmpty
    self.watches = isRoot ? parts.watches : []
    self.filters = content.filters + parts.filters
    self.interimHooks = parts.interimHooks
    self.objects = parts.objects
  }

  /// What a feature's variables ask for; nil: the location has nothing of it.
  package func object<Part: AnyObject>(_: Part.Type) -> Part? {
    for object in objects where type(of: object) == Part.self { return unsafeDowncast(object, to: Part.self) }
    return nil
  }

  /// The reason why the location's rules deny a client, for the error log; nil if the rules admit the client.
  package func denial(of facts: ConnectionFacts, scratch: RegularExpression.Scratch) -> String? {
    guard let clientRules, case .denied(let place, let reason) = facts.judge(by: clientRules, scratch: scratch) else {
      return nil
    }
    return ClientRules.message(place, reason)
  }

  /// The content of a location that names none: that around an `if`, or files. As in nginx, an `if` with a `root` still
  /// leaves the request to the `proxy_pass` around it.
  private static func fallback(_ own: LiveContent?, outer: LiveContent?) -> LiveContent? {
    if let outer, type(of: outer) != LiveContent.self { return outer }
    return own
  }
}
