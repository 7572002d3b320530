import Crypto
import Forward
package import Language
import Observability
import Traffic

/// The rewrite module (nginx: ngx_http_rewrite_module): directives that run in the order of the file, before a location is
/// chosen or the content runs.
///
/// The folder is the whole feature: the directives here, how lines become steps in `RewriteBuild`, what the steps do in
/// `RewriteSteps`, `RewriteRuleStep` and `ConditionStep`.
struct Rewrite: FeatureSettings, LocationFeature {
  /// The directives of the level itself.
  var steps: [RewriteStep] = []
  /// `rewrite_log`
  var logsMatches = false
  /// `uninitialized_variable_warn`
  var warnsOfUnset = true

  // MARK: Directives

  static let chapter = Chapter.rewrite
  private static let blocks: DirectiveContexts = [.server, .location, .serverIf, .locationIf]
  private static let levels: DirectiveContexts = [.http, .server, .location, .locationIf]

  static let returnLine = DirectiveEntry.local(
    "return", blocks, .words(1...2, "CODE [TEXT] | CODE URL | URL"),
    "Responds immediately, before `auth_basic`, `allow` and `deny` apply; 444 closes the connection without a response.",
    repeatable: true, example: "return 301 https://$host$request_uri;", trust: .told)
  static let setLine = DirectiveEntry.local(
    "set", blocks, .words(2...2, "$VARIABLE VALUE"),
    "Sets a variable. Of nginx's own variables, `$args`, `$limit_rate`, `$proxy_host`, `$proxy_port` and most of fields, cookies and arguments can be set.",
    repeatable: true, example: "set $backend app;", trust: .told)
  static let rewriteLine = DirectiveEntry.local(
    "rewrite", blocks, .words(2...3, "REGEX REPLACEMENT [last | break | redirect | permanent]"),
    "Changes the path if the regular expression matches it, or redirects. The access rules of the location in which the request ends apply.",
    repeatable: true, example: "rewrite ^/old/(.*)$ /new/$1 last;", trust: .told)
  static let breakLine = DirectiveEntry.local(
    "break", blocks, .none, "Ends the directives of the rewrite module; the request stays in its location.",
    repeatable: true, example: "break;", trust: .told)
  static let ifLine = DirectiveEntry.local(
    "if", [.server, .location], .block(1...Int.max, "(CONDITION)"),
    "Runs the directives in the block if the condition holds. In a location, the block is a location of its own, as in nginx. A thread beside the event loops looks at the files of `-f`, `-d`, `-e` and `-x`.",
    repeatable: true, example: "if ($request_method = TRACE) { return 405; }", trust: .told)

  static let rows: [Row<Rewrite>] =
    [returnLine, setLine, rewriteLine, breakLine, ifLine].map { Row($0) } + [
      .flag(
        "rewrite_log", levels, \.logsMatches, "Whether to log what `rewrite` and `if` match, at level notice.",
        example: "rewrite_log on;", trust: .none),
      .flag(
        "uninitialized_variable_warn", levels, \.warnsOfUnset,
        "Whether to log the use of a variable that `set` has not set, at level warn.",
        example: "uninitialized_variable_warn off;"),
      .inert("rewrite_log", .serverIf, because: "as in nginx, the value of the server block counts"),
      .inert("uninitialized_variable_warn", .serverIf, because: "as in nginx, the value of the server block counts"),
    ]

  static let definitions: [String: Definition] = [
    setLine.name: { directive, defined in
      let word = directive.arguments.first
      let name = String(directive.text(0).dropFirst()).lowercased()
      guard directive.text(0).hasPrefix("$"), !name.isEmpty, name.utf8.allSatisfy(TemplateCompiler.isNameByte) else {
        return defined.report(
          word, "invalid variable name \"\(directive.text(0))\"", hint: "expected: set $NAME VALUE;")
      }
      if name != "args" { defined.allot(name, word, isSet: true) }
    },
    rewriteLine.name: { directive, defined in
      if let word = directive.arguments.first {
        defined.compile(word.text, at: word, caseless: false, what: "rewrite")
      }
    },
    ifLine.name: { directive, defined in
      // `read` reports a condition that can't be parsed.
      if let spelling = try? ConditionSpelling(directive), case .matches(_, let word, let caseless, _) = spelling {
        defined.compile(word.text, at: word, caseless: caseless, what: "condition")
      }
    },
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Rewrite? {
    var rewrite = Rewrite(level.scope, &builder)
    // The steps of a block are those of the condition, in the level around it.
    if !level.isConditional { rewrite.steps = steps(level, &builder) }
    return rewrite.steps.isEmpty && !rewrite.logsMatches && rewrite.warnsOfUnset ? nil : rewrite
  }

  /// Whether a regular expression of the level itself may set the captures anew.
  static func mayCapture(_ scope: Scope) -> Bool { [rewriteLine, ifLine].contains { $0.ownLine(in: scope) != nil } }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    if !level.isOfStream { builder.diagnostics += respondsBeforeAccess(level.scope, builder.features) }
  }

  /// Warns of access rules that `return` bypasses: nginx runs the rewrite phase (`return`) before the access phase.
  ///
  /// Access rules in the same level as the `return` have no effect at all. Inherited rules may be meant for other
  /// locations, so for them the rule warns only of a response with content (a status below 300). A refusal for everybody
  /// is what `deny` beside it wants.
  static func respondsBeforeAccess(_ scope: Scope, _ features: FeatureDirectives) -> [Diagnostic] {
    guard let answer = response(scope) else { return [] }
    let status = Quantity.number(answer.text(0)) ?? 302
    return features.ofHTTPLocation.compactMap { $0.guardingLine(scope) }.compactMap { judge in
      let line = judge.line
      let isOwn = scope.own(line.name).contains { $0.location == line.location }
      guard isOwn && !(status >= 400 && judge.refuses) || status < 300 else { return nil }
      return Diagnostic(
        .warning, at: answer.location,
        "\"return\" answers before \"\(line.name)\" \(judge.act): every client gets this response, as in nginx",
        hint: "\(line.name) is at \(line.location); if this is intended, write here: \(judge.remedy)")
    }
  }

  /// The first `return` of the level itself.
  static func response(_ scope: Scope) -> Directive? { returnLine.ownLine(in: scope) }

  /// Those of `if (!-f FILE) { return 404; }`.
  static func requiredFiles(_ scope: Scope) -> [String] {
    ifLine.lines(in: scope).compactMap { line in
      guard case .file(.plain, let file, isNegated: true)? = try? ConditionSpelling(line),
        line.block?.contains(where: { $0.name == returnLine.name }) == true
      else { return nil }
      return file.text
    }
  }

  private static let redirecting: Set<Int> = [301, 302, 303, 307, 308]
  /// Regular expressions that match each path.
  static let ofEachPath: Set<String> = [
    "^", "^/", "/", ".", ".*", "(.*)", "^.*", "^.*$", "^(.*)", "^(.*)$", "^/.*", "^/.*$", "^/(.*)", "^/(.*)$",
    "^(/.*)$",
  ]

  static func fixedResponse(_ scope: Scope) -> FixedResponse? {
    if let line = response(scope) {
      // Without a status it is an address.
      guard let status = Quantity.number(line.text(0)), !redirecting.contains(status) else { return .redirect }
      return status >= 400 ? .refusal : .other
    }
    let redirects = rewriteLine.lines(in: scope).contains { line in
      let isURL = ["http://", "https://", "$scheme"].contains { line.text(1).hasPrefix($0) }
      return ofEachPath.contains(line.text(0)) && (isURL || ["redirect", "permanent"].contains(line.text(2)))
    }
    return redirects ? .redirect : nil
  }

  var mayRespond: Bool {
    steps.contains {
      switch $0 {
      case .return, .rewrite, .if: true
      case .set, .setArguments, .break: false
      }
    }
  }

  var assignments: [Assignment] {
    steps.withInner.compactMap { step in
      switch step {
      case .set(let slot, let template): return Assignment(of: template, to: [slot])
      case .if(let block):
        guard case .matches(let subject, _, let captures) = block.condition else { return nil }
        return Assignment(of: subject, to: captures.map(\.slot), setsCaptures: true)
      case .setArguments, .return, .rewrite, .break: return nil
      }
    }
  }

  var conditional: [LocationSettings] {
    steps.compactMap { if case .if(let block) = $0 { block.location } else { nil } }
  }

  /// A `return` with a status of 4xx keeps clients out.
  /// Those of the server block itself run before a location is sought.
  var entryRule: EntryRule? {
    func refusals(_ steps: [RewriteStep], _ condition: String) -> [String] {
      steps.flatMap { step -> [String] in
        switch step {
        case .return(let response) where (400..<500).contains(response.status):
          ["return \(response.status)\(condition)"]
        case .if(let block): refusals(block.steps, "\(condition) if \(ObjectIdentifier(block))")
        default: []
        }
      }
    }
    let texts = refusals(steps, "")
    return texts.isEmpty ? nil : EntryRule(text: texts.joined(separator: ", "), holdsOutsideLocations: false)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let program = RewriteProgram(steps)
    let names = makers.generation.http.slotNames
    let steps = makers.trace?.tracing(program.steps, self.steps.flatWords(names)) ?? program.steps
    if parts.isOfServer { parts.server.rewrite = steps } else { parts.steps.rewrite = steps }
    for (condition, block) in program.blocks {
      parts.blocks.append(
        LocationBlock(settings: block, rewrite: steps) { condition.lead(to: makers.conditionals.add($0)) })
    }
    if logsMatches { parts.objects.append(RewriteLog()) }
    parts.warnsOfUnset = warnsOfUnset
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let before = old?.steps.flatWords(names.old) ?? [], after = new?.steps.flatWords(names.new) ?? []
    if before == after { return }
    let gone = before.filter { !after.contains($0) }, added = after.filter { !before.contains($0) }
    let words = gone.map { "without `\($0)`" } + added.map { "with `\($0)`" }
    found.other("its rewrite directives differ: \(words.isEmpty ? "in their order" : words.joined(separator: ", "))")
  }
}

/// `rewrite_log on` of a location.
final class RewriteLog {}

extension [RewriteStep] {
  /// The steps, and those of `if` blocks.
  fileprivate var withInner: [RewriteStep] {
    flatMap { step in
      if case .if(let block) = step { [step] + block.steps.withInner } else { [step] }
    }
  }
}

extension DirectiveContexts {
  package static let serverIf = DirectiveContexts(block: "if", in: .server, named: "if in server")
  package static let locationIf = DirectiveContexts(block: "if", in: .location, named: "if in location")
}

extension Scope {
  /// The lines of `if` of the level and of those around it.
  var conditions: [Directive] { Rewrite.ifLine.lines(in: self) + (outer?.conditions ?? []) }
}
