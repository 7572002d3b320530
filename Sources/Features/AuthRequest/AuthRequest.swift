import Forward
import Language
import Observability
import Traffic

/// auth_request (nginx: ngx_http_auth_request_module): an upstream says whether a request is admitted.
///
/// The folder is the whole feature: the directives and what they set here, and what happens to a request in
/// `AuthorizationStep`.
struct AuthRequest: FeatureSettings, LocationFeature {
  /// One `auth_request_set`: a variable of the main request, and the value that it gets of the subrequest.
  struct Setting: Sendable {
    enum Target: Sendable {
      case slot(Int)
      /// `$args`
      case arguments
    }

    var target: Target
    var value: Template
  }

  /// A path of the same server block; empty: nobody is asked.
  private(set) var path: [UInt8] = []
  private(set) var variables: [Setting] = []

  // MARK: Directives

  static let chapter = Chapter.subrequests
  private static let name = "auth_request"
  private static let set = "auth_request_set"
  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<AuthRequest>] = [
    .line(
      name, levels, .words(1...1, "PATH | off"), initial: "off",
      "Asks the location of this path, by a GET without a body, whether a request is admitted: 2xx admits, 401 and 403"
        + " deny, and anything else is an error 500. See docs/operating/http.md.",
      example: "auth_request /oauth2/auth;", trust: .told
    ) { if $1.text(0) != "off" { $0.path = Subrequest.path($1, &$2) ?? [] } },
    .lines(
      set, levels, .words(2...2, "$VARIABLE VALUE"),
      "Sets a variable of the request when `auth_request` is answered. The value may have variables of the subrequest,"
        + " such as `$upstream_http_x_user`. `$args` and `$limit_rate` can be set, too.",
      example: "auth_request_set $user $upstream_http_x_auth_request_user;", trust: .told
    ) { request, lines, builder in request.variables = lines.compactMap { setting($0, &builder) } },
  ]

  static let definitions: [String: Definition] = [set: { $1.defineSettable($0) }]

  private static func setting(_ line: Directive, _ builder: inout SettingsBuilder) -> Setting? {
    let name = line.text(0).dropFirst().lowercased()
    if name == "args" { return Setting(target: .arguments, value: builder.template(line, 1)) }
    // A name that can't be a variable has been reported.
    guard let slot = builder.variables.slots[name] else { return nil }
    return Setting(target: .slot(slot), value: builder.template(line, 1))
  }

  var isInEffect: Bool { !path.isEmpty }

  /// The variables whose values come from the upstream that is asked, which may say who the client is.
  var toldSlots: [Int] { variables.compactMap { if case .slot(let slot) = $0.target { slot } else { nil } } }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.access.append(AuthorizationStep(self))
  }

  static func guardingLine(_ scope: Scope) -> GuardingLine? { GuardingLine(scope, unlessOff: name, act: "is asked") }

  static func subrequestPaths(_ scope: Scope) -> [String] {
    [scope.text(name)].compactMap { $0 }.filter { $0 != "off" }
  }

  var guardingDirective: String? { Self.name }

  var entryRule: EntryRule? { EntryRule(text: "auth_request \(String(decoding: path, as: UTF8.self))") }

  var ways: LocationWays {
    let path = String(decoding: path, as: UTF8.self)
    return LocationWays(
      conditions: [AccessCondition(asking: .asked, .access, "the word of \(path) (auth_request)")],
      leads: [RequestLead(.question, to: .path(Template(literal: path)), "auth_request \(path)")])
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    func path(_ settings: Self?) -> String? { settings.map { String(decoding: $0.path, as: UTF8.self) } }
    switch (path(old), path(new)) {
    case (let before?, nil):
      found.opens("nobody is asked any more whether a request is admitted (was auth_request \(before))")
    case (nil, let after?): found.closes("\(after) is asked whether a request is admitted (auth_request)")
    case (let before?, let after?) where before != after:
      found.other("\(after) is asked whether a request is admitted (was \(before))")
    default: break
    }
    guard let old, let new else { return }
    let values = (old.variables.map(\.value.asWritten).sorted(), new.variables.map(\.value.asWritten).sorted())
    if values.0 != values.1 {
      found.other(
        "auth_request_set takes \(values.1.joined(separator: ", ")) (was \(values.0.joined(separator: ", ")))")
    }
  }
}
