import Forward
import Language
import Observability
import Traffic

/// `api` (nginx Plus: ngx_http_api_module, version 9): the state of groups and connections as JSON, and changes of servers
/// while they serve.
///
/// The folder is the whole feature: the directive here, what a path names in `APIPath`, what it shows in `APIView`, and
/// what happens to a request in `APIHandler`.
struct APILocation: ContentFeature {
  /// What requests may do, and what keeps strangers out.
  enum Permission: Sendable, Hashable {
    case read
    /// They may change something. Rules keep strangers out; whoever comes by a unix socket must be root or the user that
    /// serves, too.
    case writeByRules
    /// They may change something. Nothing but the server's unix sockets keeps strangers out, so a client that has come by
    /// anything else may not even look.
    case writeBySocket
  }

  let access: Permission
  /// What stands before the API's own path.
  let prefix: [UInt8]

  /// Whether requests may change something.
  var mayWrite: Bool { access != .read }

  static let chapter = Chapter.http
  static let isForOperators = true

  private static let row = DirectiveEntry.local(
    "api", .location, .words(0...1, "[write=on|off]"),
    "Serves nginx Plus's API, version 9, below the location's path: upstream groups and their servers, connections,"
      + " handshakes, workers. With `write=on`, a PATCH changes a server of a group with `zone`; the location must keep"
      + " strangers out: by a client certificate, a password, `allow` and `deny`, or a unix socket, whose other end must be root"
      + " or the user that serves. A connection that came to the socket by `pass`, or that sallyport made itself"
      + " (`proxy_pass`), is not of that user.",
    example: "api;", trust: .told)

  static let directives = [row]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    OpenPageRule.judge(line(in: level.scope), what: "the API", level, &builder)
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> APILocation? {
    guard let line = line(in: level.scope) else { return nil }
    builder.refuseSecondContent(at: line, level.scope)
    let access: Permission
    switch line.arguments.first?.text {
    case nil, "write=off": access = .read
    case "write=on": access = isGuardedByRules(level.scope, builder.features) ? .writeByRules : .writeBySocket
    case let word?:
      builder.error(line.place(0), "invalid parameter \"\(word)\" in \"\(line.name)\"", hint: "write=on or write=off")
      return nil
    }
    if access != .read { builder.hasWritableAPI = true }
    if access == .writeBySocket, !isReachedBySocketsOnly(level.scope) {
      builder.error(
        line.location, "\"api write=on\" where nothing keeps strangers out: anybody could change servers",
        hint:
          "ssl_verify_client on; or auth_basic, allow and deny, ssl_client_allow; or a server that listens on unix: sockets only"
      )
    }
    switch level.match {
    case .prefix(let path), .prefixNoRegex(let path), .exact(let path): return APILocation(access: access, prefix: path)
    case .regex, .named:
      builder.error(
        line.location, "\"api\" in a location of another kind than a prefix", hint: "location /api/ { api; }")
      return nil
    }
  }

  /// Whether something at this level keeps clients out.
  private static func isGuardedByRules(_ scope: Scope, _ features: FeatureDirectives) -> Bool {
    features.ofHTTPLocation.contains { $0.guardingLine(scope) != nil } || scope.demandsCertificate
  }

  private static func isReachedBySocketsOnly(_ scope: Scope) -> Bool {
    let listens = scope.listenLines
    return !listens.isEmpty && listens.allSatisfy { $0.text(0).hasPrefix("unix:") }
  }

  static var workerParts: [WorkerPart.Type] { [LogLevelEnd.self] }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = APIContent(self) }

  var showsCounts: Bool { true }
  var isGuardedBySocket: Bool { access == .writeBySocket }

  var policy: [(label: String, text: String)] {
    [
      (
        "api",
        mayWrite ? "changes servers for every client that this location lets in" : "for every client that it lets in"
      )
    ]
  }

  var ways: LocationWays {
    guard mayWrite else { return LocationWays() }
    var ways = LocationWays()
    if isGuardedBySocket {
      ways.conditions = [AccessCondition(asking: .asked, .content, "a unix socket whose other end is root or our user")]
    }
    ways.opens = [
      "servers of upstreams with a zone, limits, values of keyval, denials of clients and the level of logs can be changed"
    ]
    return ways
  }

  func words(_ http: HTTPSettings) -> String { mayWrite ? "serves the API, which changes servers" : "serves the API" }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    found.flag(
      new?.mayWrite == true, old?.mayWrite == true, opens: "the API can change servers (api write=on)",
      closes: "the API can no longer change servers")
  }

  /// The folder of denials.
  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    guard http.hasWritableAPI, let folder = DenialState.folder else { return [] }
    return [.path(.change, folder)]
  }
}
