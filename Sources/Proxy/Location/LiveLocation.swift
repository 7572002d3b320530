import Bytes
import Enrolment
import Envelope
import HTTP
import Identity
import Observability
import Signature
import TLS
import Upstream

/// One location in one worker: its settings, compiled into the steps of the phases and the content that an exchange runs.
final class LiveLocation {
  let settings: LocationSettings
  /// The root of a server block has no rewrite steps: the server's own phase runs them.
  let steps: PhaseSteps
  let hasNoSteps: Bool
  let content: LiveContent
  let inner: LocationTree
  let hasInner: Bool
  /// nil: every client may enter.
  let clientRules: ClientRules?
  /// The identity of `clientRules`, without a reference. A session remembers the rules that admitted it.
  let rules: ObjectIdentifier?
  let addedFields: [LiveField]
  let expires: LiveExpires?
  /// nil: `charset off`.
  let charset: LiveCharset?
  /// Whether one of these three says anything.
  let changesFields: Bool
  let earlyHints: [LiveTemplate]
  let errorLog: ErrorLog
  let accessLogs: [LiveAccessLog]
  let hasAccessLogs: Bool
  /// `limit_except`
  let methodLimit: LiveMethodLimit?
  /// `valid_referers`
  let referers: LiveReferers?
  /// Whether the content is the location's own, not that of the location around an `if`.
  let hasOwnContent: Bool
  /// What features' variables ask for.
  let objects: [AnyObject]
  /// nil: neither `root` nor `alias` says where files are.
  let files: LiveFiles?
  /// What happens to the responses that leave here: those of the content, then those of the location, in nginx's order.
  let filters: [ResponseFilter]
  let policy: ResponsePolicy
  var limits: LocationLimits { settings.limits }

  /// `outer`: for an `if` or a `limit_except`, the content of the location around it, and its rewrite steps, of which the
  /// exchange runs the rest in an `if`.
  init(
    settings: LocationSettings, makers: LiveMakers, isRoot: Bool = false,
    outer: (content: LiveContent, rewrite: [PhaseStep])? = nil
  ) {
    self.settings = settings
    self.policy = ResponsePolicy(settings.limits)
    let program = isRoot || outer != nil ? RewriteProgram([]) : RewriteProgram(settings.rewrite)
    let rewrite =
      makers.trace?.tracing(program.steps, settings.rewrite.flatWords(makers.generation.http.slotNames))
      ?? program.steps
    var parts = LocationParts(settings, isOfServer: isRoot)
    for feature in settings.features { feature.compile(&parts, makers) }
    var steps = Self.steps(settings, makers, parts.steps, rewrite: outer?.rewrite ?? rewrite)
    if let trace = makers.trace { steps = trace.tracing(steps) }
    self.steps = steps
    self.hasNoSteps = steps.isEmpty
    let isEmpty = settings.content == nil
    let own = isEmpty ? Self.files(settings, outer: outer?.content) : parts.content ?? LiveContent()
    let isInherited = isEmpty && !(own is FileContent)
    let content = isInherited ? own : makers.trace.map { ExplainedContent(own, $0) } ?? own
    self.content = content
    self.files = settings.files.map { LiveFiles($0, real: makers.generation.realFolders[$0.root.folder]) }
    self.hasOwnContent = !isEmpty
    for (condition, block) in program.blocks {
      let inside = LiveLocation(settings: block, makers: makers, outer: (content, rewrite))
      condition.lead(to: makers.conditionals.add(inside))
    }
    self.methodLimit = settings.flow.methodLimit.map { limit in
      LiveMethodLimit(
        methods: limit.methods,
        location: LiveLocation(settings: limit.location, makers: makers, outer: (content, [])))
    }
    self.referers = settings.flow.referers.map { LiveReferers($0) }
    let inner = settings.locations.map { LiveLocation(settings: $0, makers: makers) }
    self.inner = LocationTree(inner)
    self.hasInner = !inner.isEmpty
    self.clientRules = parts.clientRules
    self.rules = parts.clientRules.map { ObjectIdentifier($0) }
    let expires = LiveExpires(settings.expires)
    self.expires = expires
    self.addedFields = settings.addedFields.map { LiveField($0) }
    self.charset = settings.charset.map { LiveCharset($0) }
    self.changesFields =
      expires != nil || settings.charset != nil || !settings.addedFields.isEmpty
    self.earlyHints = settings.earlyHints.map { LiveTemplate($0) }
    self.errorLog = makers.errorLog(settings.errorLogs)
    let accessLogs = settings.accessLogs.compactMap(makers.accessLogs.log)
    self.accessLogs = accessLogs
    self.hasAccessLogs = !accessLogs.isEmpty
    self.filters = content.filters + parts.filters
    self.objects = parts.objects
  }

  /// What a feature's variables ask for; nil: the location has nothing of it.
  func object<Part: AnyObject>(_: Part.Type) -> Part? {
    for object in objects where type(of: object) == Part.self { return unsafeDowncast(object, to: Part.self) }
    return nil
  }

  /// The steps of each phase, in the order of nginx's modules: addresses before passwords.
  private static func steps(
    _ settings: LocationSettings, _ makers: LiveMakers, _ own: PhaseSteps, rewrite: [PhaseStep]
  ) -> PhaseSteps {
    var steps = own
    steps.rewrite = rewrite
    if let tryFiles = settings.files?.tryFiles {
      let place = steps.precontent.firstIndex { $0 is MirrorStep } ?? steps.precontent.endIndex
      steps.precontent.insert(TryFilesStep(tryFiles), at: place)
    }
    return steps
  }

  /// The content of a location that names none: that around an `if`, or files. As in nginx, an `if` with a `root` still
  /// leaves the request to the `proxy_pass` around it.
  private static func files(_ settings: LocationSettings, outer: LiveContent?) -> LiveContent {
    if let outer, type(of: outer) != LiveContent.self { return outer }
    return settings.files == nil ? LiveContent() : FileContent()
  }
}

/// `limit_except` in one worker.
struct LiveMethodLimit {
  /// Upper-case names.
  let methods: [[UInt8]]
  /// For requests with another method.
  let location: LiveLocation

  /// Whether the request's method is listed. An error page is fetched with GET, or with HEAD for a HEAD request.
  func allows(_ exchange: Exchange) -> Bool {
    let isOwn = exchange.redirection.keepsBody || exchange.head.method == .head
    let method = isOwn ? Array(exchange.head.bytes.readable[exchange.head.methodRange]) : Array("GET".utf8)
    return methods.contains(method)
  }
}
