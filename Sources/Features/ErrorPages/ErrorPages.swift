import Bytes
import Forward
import HTTP
import Language
package import Observability
package import Traffic

/// error_page (nginx: ngx_http_core_module): what a client gets in place of an error.
struct ErrorPages: FeatureSettings, LocationFeature {
  var pages: [ErrorPage] = []
  /// `recursive_error_pages`
  var isRecursive = false

  // MARK: Directives

  static let chapter = Chapter.http
  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<ErrorPages>] = [
    .lines(
      "error_page", levels.union(.locationIf), .words(2...Int.max, "CODE … [=[CODE]] URI"),
      "The page or redirect that replaces an error.", example: "error_page 502 503 /unavailable;", trust: .told
    ) { errors, lines, builder in errors.pages = lines.flatMap { pages($0, &builder) } },
    .flag(
      "recursive_error_pages", levels, \.isRecursive, "Whether `error_page` applies to an error of an error page too.",
      example: "recursive_error_pages on;"),
  ]

  var isInEffect: Bool { !pages.isEmpty || isRecursive }

  private static func pages(_ line: Directive, _ builder: inout SettingsBuilder) -> [ErrorPage] {
    guard let last = line.arguments.last else { return [] }
    var codes = line.arguments.dropLast()
    var replacement: Int?
    if let word = codes.last, word.text.hasPrefix("=") {
      codes = codes.dropLast()
      let text = String(word.text.dropFirst())
      replacement = text.isEmpty ? 0 : Quantity.number(text)
      guard let status = replacement, text.isEmpty || (100...599).contains(status) else {
        builder.refuse(word, of: line, hint: "= or =STATUS")
        return []
      }
    }
    if codes.isEmpty {
      builder.error(
        line.location, "invalid number of arguments in \"error_page\" directive",
        hint: "error_page CODE … [=[CODE]] URI;")
    }
    let target: ErrorPage.Target
    if last.text.hasPrefix("@") {
      target = .named(String(last.text.dropFirst()))
    } else if last.text.hasPrefix("/") {
      target = .path(builder.template(last))
    } else {
      target = .redirect(builder.template(last))
    }
    return codes.compactMap { word in
      guard let status = Quantity.number(word.text), (300...599).contains(status) else {
        builder.refuse(word, of: line, hint: "value must be between 300 and 599")
        return nil
      }
      return ErrorPage(status: status, target: target, replacement: replacement, location: last.location)
    }
  }

  // MARK: Effect

  var namedTargets: [(name: String, act: Wording, place: SourceLocation)] {
    pages.compactMap { page in
      guard case .named(let name) = page.target else { return nil }
      return (name, "the error page is", page.location)
    }
  }

  var ways: LocationWays {
    var leads: [RequestLead] = []
    var seen: Set<Int> = []
    // The first page of a status counts.
    for page in pages where seen.insert(page.status).inserted {
      switch page.target {
      case .path(let path):
        leads.append(lead(page, to: .path(path), path.asWritten))
      case .named(let name): leads.append(lead(page, to: .named(name), "@\(name)"))
      // A variable can hold a path or the name of a location.
      case .redirect(let text):
        guard case .variable? = text.parts.first else { continue }
        leads.append(lead(page, to: .anywhere, text.asWritten))
      }
    }
    return LocationWays(leads: leads)
  }

  private func lead(_ page: ErrorPage, to target: RequestLead.Target, _ words: String) -> RequestLead {
    RequestLead(.failure([page.status]), to: target, "error_page \(page.status) \(words)", at: page.location)
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.errorResponder = LiveErrorPages(self) }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    func words(_ pages: ErrorPages?, _ names: [Int: String]) -> [String] {
      (pages?.pages ?? []).map { page in
        let target =
          switch page.target {
          case .path(let text), .redirect(let text): text.text(names)
          case .named(let name): name
          }
        return "\(page.status) \(page.replacement ?? -1) \(target)"
      }
    }
    if words(old, names.old) != words(new, names.new) { found.other("its error pages differ") }
  }
}

/// One status of an `error_page` line.
package struct ErrorPage: Sendable, Hashable {
  package enum Target: Sendable, Hashable {
    /// A path (internal redirect).
    case path(Template)
    case named(String)
    /// A URL: redirect.
    case redirect(Template)
  }
  package var status: Int
  package var target: Target
  /// `=200`, or `=` (the target's own status, 0), or nil: the status stays.
  package var replacement: Int?
  /// Of its line, for messages.
  @NotCompared package private(set) var location: SourceLocation
}

/// The error pages of a location in one worker.
private final class LiveErrorPages: ErrorResponder {
  struct Page {
    let status: Int
    let target: ErrorPage.Target
    /// The path or the address; nil for a named location.
    let text: CompiledTemplate?
    /// As in `ErrorPage`.
    let replacement: Int?
  }

  private let all: [Page]
  private let isRecursive: Bool

  init(_ settings: ErrorPages) {
    isRecursive = settings.isRecursive
    all = settings.pages.map { page in
      let text: CompiledTemplate? =
        switch page.target {
        case .path(let text), .redirect(let text): text.compiled
        case .named: nil
        }
      return Page(status: page.status, target: page.target, text: text, replacement: page.replacement)
    }
  }

  override func answer(to status: Int) -> Answer? {
    guard let page = all.first(where: { $0.status == status }) else { return nil }
    return if case .redirect = page.target { .redirect } else { .page }
  }

  override func respond(to failure: ErrorResponse, _ exchange: Exchange) {
    guard let page = all.first(where: { $0.status == failure.code }) else {
      return exchange.answerPage(status: failure.code)
    }
    exchange.show(page, isRecursive: isRecursive, for: failure)
  }
}

extension Exchange {
  fileprivate func show(_ page: LiveErrorPages.Page, isRecursive: Bool, for failure: ErrorResponse) {
    setStatus(0)
    switch page.replacement {
    case nil: overrideStatus(Int(failure.status))
    case 0: overrideStatus(nil)
    case .some(let code): overrideStatus(code)
    }
    // Before the redirect: the text may speak of the request as it was.
    let text = page.text?.bytes(self) ?? []
    // As in nginx, a variable can hold a path or the name of a location.
    var target = page.target
    if case .redirect = target, text.first == 0x2F { target = .path(Template([])) }
    if case .redirect = target, text.first == 0x40 {
      target = .named(String(decoding: text.dropFirst(), as: UTF8.self))
    }
    let sendsClient = if case .redirect = target { true } else { false }
    prepareRedirect(
      redirection(to: target, for: failure), endsErrorPages: !isRecursive, keepsMethod: sendsClient)
    switch target {
    case .path: redirect(toPath: text)
    case .named(let name):
      guard let found = server.locations.named(name) else {
        log(.error, "could not find named location \"\(name)\"")
        return answerPage(status: 500)
      }
      redirect(toNamed: found)
    case .redirect:
      let code = page.replacement.flatMap { [301, 302, 303, 307, 308].contains($0) ? $0 : nil } ?? 302
      redirect(status: code, to: text)
    }
  }

  /// A named location gets the request unchanged, so that a POST doesn't become a GET, unless the request is at fault
  /// or its body has gone to an upstream.
  private func redirection(to target: ErrorPage.Target, for failure: ErrorResponse) -> Redirection {
    guard case .named(let name) = target else { return .path }
    // An earlier error page has dropped the body already.
    guard redirection.keepsBody else { return .bodiless }
    switch body.state {
    case .collected(let kept) where !(server.locations.named(name)?.content.takes(kept) ?? true): return .bodiless
    case .none, .held, .collected: return failure.blamesRequest || head.refusedLine != nil ? .bodiless : .whole
    case .collecting, .streaming, .streamed: return .bodiless
    }
  }
}
