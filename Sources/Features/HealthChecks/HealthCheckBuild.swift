import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream

extension HealthCheckSettings {
  /// Builds the `health_check` of a location, or of a server of `stream`. No client may choose the name and the certificate
  /// that its TLS uses.
  static func read(
    _ pass: PassDraft, _ check: DirectiveEntry, _ builder: inout SettingsBuilder
  ) -> Self? {
    let scope = pass.scope
    guard let line = check.line(in: scope) else { return nil }
    guard case .group(let index, _) = pass.target.upstream, builder.namedGroups.values.contains(index) else {
      builder.error(
        line.location, "\"health_check\" without an upstream group",
        hint: "the proxy_pass beside it must name an \"upstream\" block: its servers are checked")
      return nil
    }
    if let server = builder.groups[index].servers.first(where: { $0.followed != nil }) {
      builder.error(
        line.location, "\"health_check\" of a group whose servers DNS says",
        hint: "leave out \"resolve\" at \(server.location), or the check: max_fails counts failures of requests")
    }
    if let file = builder.groups[index].stateFile {
      builder.error(
        line.location, "\"health_check\" of a group whose servers the API adds and removes (state \(file))",
        hint: "leave out \"state\", or the check: max_fails counts failures of requests")
    }
    if let identity = pass.trust.identity {
      builder.error(
        line.location, "\"health_check\" beside a \"proxy_ssl_certificate\" with variables",
        hint: "a check is of no client, so no variable says what it presents; that directive is at \(identity.location)"
      )
    }
    let isOfClient = pass.trust.name.uses {
      ![.simple(.proxy_host), .simple(.proxy_port), .feature(ServerNames.variable), .simple(.host)].contains($0)
    }
    if pass.url.scheme == .https, isOfClient {
      builder.error(
        line.location, "\"health_check\" beside a \"proxy_ssl_name\" that depends on the client",
        hint: "a check is of no client; write the name that the servers' certificates have")
    }
    var draft = HealthCheckDraft(pass, group: builder.groups[index])
    if draft.isOfStream { StreamHealthChecks.timeout.read(scope, into: &draft.common, &builder) }
    var seen: Set<String> = []
    for word in line.arguments {
      let name = word.text.splitAtEquals.name
      guard seen.insert(name).inserted else {
        builder.error(word.location, "duplicate parameter \"\(name)\"", hint: "write it once")
        continue
      }
      take(word, into: &draft, &builder)
    }
    if let fault = draft.contradiction { builder.error(line.location, fault.message, hint: fault.hint) }
    return draft.settings
  }

  private static func take(_ word: Word, into draft: inout HealthCheckDraft, _ builder: inout SettingsBuilder) {
    let (name, value) = word.text.splitAtEquals
    if draft.isOfStream, !HealthCheckDraft.ofStream.contains(name) { return refuseOfStream(word, name, &builder) }
    switch (name, value) {
    case ("interval", let value?):
      draft.common.interval = duration(word, value, from: 10, &builder) ?? draft.common.interval
    case ("jitter", let value?): draft.common.jitter = duration(word, value, from: 0, &builder) ?? draft.common.jitter
    case ("fails", let value?): draft.common.fails = builder.number(word, value, in: 1...1_000_000) ?? 1
    case ("passes", let value?): draft.common.passes = builder.number(word, value, in: 1...1_000_000) ?? 1
    case ("port", let value?): draft.common.port = builder.number(word, value, in: 1...65535).map { UInt16($0) }
    case ("mandatory", nil): draft.common.isMandatory = true
    case ("persistent", nil): draft.common.isPersistent = true
    case ("uri", let value?): draft.target = target(word, value, &builder)
    case ("match", let value?) where draft.isOfStream:
      draft.streamMatch = match(
        value, among: builder[HealthChecks.Block.self].streamMatches, word,
        "write it in stream: match \(value) { expect \"…\"; }", &builder)
    case ("match", let value?):
      draft.match = match(
        value, among: builder[HealthChecks.Block.self].matches, word,
        "write it in http: match \(value) { status 200; }", &builder)
    case ("type", "grpc"?): draft.asksGRPC = true
    case ("type", _):
      builder.refuse(word, hint: "type=grpc, or leave it out for HTTP")
    case ("grpc_service", let value?):
      if value.isEmpty || value.contains("$") {
        builder.refuse(word, hint: "the name of a service, without variables")
      }
      draft.service = value
    case ("grpc_status", let value?): draft.status = builder.number(word, value, in: 1...16)
    case ("keepalive_time", _):
      builder.error(
        word.location, "`keepalive_time` is nginx's, but not supported here",
        hint: "leave it out: each check opens a connection, so that it verifies the server each time")
    default:
      let known = [
        "interval", "jitter", "fails", "passes", "uri", "port", "mandatory", "persistent", "match", "type",
        "grpc_service", "grpc_status",
      ]
      builder.refuse(
        word,
        hint: Spelling.nearest(to: name, among: known).map { "did you mean \"\($0)\"?" }
          ?? "interval=TIME, jitter=TIME, fails=N, passes=N, uri=/…, port=N, mandatory, match=NAME or type=grpc")
    }
  }

  private static func match<Match>(
    _ name: String, among all: [String: Match], _ word: Word, _ hint: String, _ builder: inout SettingsBuilder
  ) -> Match? {
    if let match = all[name] { return match }
    builder.error(
      word.location, "no match block \"\(name)\"",
      hint: Spelling.nearest(to: name, among: all.keys.sorted()).map { "did you mean \"\($0)\"?" } ?? hint)
    return nil
  }

  private static func refuseOfStream(_ word: Word, _ name: String, _ builder: inout SettingsBuilder) {
    if name == "udp" {
      builder.error(
        word.location, "`udp` is nginx's, but not supported here", hint: "leave it out: sallyport passes no datagrams")
    } else {
      builder.refuse(
        word,
        hint: Spelling.nearest(to: name, among: HealthCheckDraft.ofStream).map { "did you mean \"\($0)\"?" }
          ?? "interval=TIME, jitter=TIME, fails=N, passes=N, port=N, mandatory or match=NAME")
    }
  }

  /// Parses a time of at most 24 days, in milliseconds.
  private static func duration(_ word: Word, _ text: String, from least: Int, _ builder: inout SettingsBuilder) -> Int?
  {
    guard let time = Quantity.milliseconds(text), (least...(24 * 86_400_000)).contains(time) else {
      builder.refuse(word, hint: "it must be \(Expected.milliseconds)\(least > 0 ? "; at least \(least)ms" : "")")
      return nil
    }
    return time
  }

  private static func target(_ word: Word, _ text: String, _ builder: inout SettingsBuilder) -> [UInt8]? {
    if text.contains("$") {
      builder.error(
        word.location, "variables in \"uri\" of \"health_check\"",
        hint: "a check is of no client, so that most variables have no value; write the path itself")
      return nil
    }
    let bytes = Array(text.utf8)
    guard bytes.first == UInt8(ascii: "/"), bytes.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") })
    else {
      builder.refuse(
        word, hint: "a path that begins with \"/\", percent-encoded, and a query if needed: uri=/health?full=1")
      return nil
    }
    return bytes
  }
}

/// The parameters of a `health_check`, before it is known whether they fit together.
private struct HealthCheckDraft {
  /// The `type` that the upstream answers; nil: requests alone.
  let checkType: String?
  let isOfStream: Bool
  /// The protocol of the upstream, if it isn't HTTP: a check opens a connection then.
  let otherProtocol: String?
  var group: UpstreamGroupSettings
  var common = HealthCheckSettings()
  var target: [UInt8]?
  var match: ResponseMatch?
  var streamMatch: StreamMatch?
  var asksGRPC = false
  var service: String?
  var status: Int?

  /// The parameters in `stream`.
  static let ofStream = ["interval", "jitter", "fails", "passes", "port", "mandatory", "persistent", "match"]

  init(_ pass: PassDraft, group: UpstreamGroupSettings) {
    checkType = pass.dialect.checkType
    isOfStream = pass.level.isOfStream
    otherProtocol = isOfStream || pass.dialect.speaksHTTP ? nil : pass.dialect.name
    self.group = group
  }

  var contradiction: (message: String, hint: String)? {
    if common.isPersistent, !common.isMandatory {
      return ("\"persistent\" without \"mandatory\"", "mandatory persistent")
    }
    if common.port != nil, group.servers.contains(where: { $0.address.port == nil }) {
      return ("\"port\" for a group with a unix socket", "leave port out: a unix socket has none")
    }
    if let name = otherProtocol, target != nil || match != nil || asksGRPC {
      return (
        "\"health_check\" with a request or \"match\" at a server of \(name)",
        "leave uri, match and type out: a check of \(name) opens a connection, and sends nothing"
      )
    }
    guard asksGRPC else {
      if service != nil { return ("\"grpc_service\" without \"type=grpc\"", "write type=grpc before it") }
      if status != nil { return ("\"grpc_status\" without \"type=grpc\"", "write type=grpc before it") }
      return nil
    }
    if checkType != "grpc" {
      return ("\"type=grpc\" in a location without grpc_pass", "leave type out, or use grpc_pass")
    }
    if target != nil { return ("\"uri\" beside \"type=grpc\"", "leave uri out: the path is the method's name") }
    if match != nil { return ("\"match\" beside \"type=grpc\"", "leave match out: grpc_status says what passes too") }
    return nil
  }

  var settings: HealthCheckSettings {
    var settings = common
    if isOfStream || otherProtocol != nil {
      settings.kind = .tcp(match: streamMatch)
      return settings
    }
    settings.kind =
      asksGRPC
      ? .grpc(service: service ?? "", orStatus: status) : .http(target: target ?? [UInt8(ascii: "/")], match: match)
    return settings
  }
}
