import Forward
package import Language
import Observability
import Traffic
import Upstream

/// Active health checks (nginx's commercial edition: ngx_http_upstream_hc_module).
enum HealthChecks: PassFeature {
  static let chapter = Chapter.healthChecks

  static let check = DirectiveEntry.local(
    "health_check", .location,
    .words(
      0...Int.max,
      "[interval=TIME] [jitter=TIME] [fails=N] [passes=N] [uri=/PATH] [port=N] [mandatory [persistent]] [match=NAME] [type=grpc [grpc_service=NAME] [grpc_status=CODE]]"
    ), "interval=5s jitter=0 fails=1 passes=1 uri=/",
    "Checks the servers of the group that `proxy_pass` or `grpc_pass` names, with the location's TLS settings. A server that is down gets no requests. The group needs no `zone`.",
    example: "health_check interval=10s uri=/health;")
  static let match = DirectiveEntry.local(
    "match", .http, .block(1...1, "NAME"), "Tests that a response to a health check must pass.", repeatable: true,
    example: "match m { status 200-299; header Content-Type = application/json; }")
  static let status = DirectiveEntry.local(
    "status", .match, .words(1...Int.max, "[!] CODE | FROM-TO …"), "",
    "The statuses that pass, or with `!` those that don't.",
    repeatable: true, example: "status 200-299;")
  static let header = DirectiveEntry.local(
    "header", .match, .words(1...3, "[!] NAME | NAME =|!=|~|!~ VALUE"), "",
    "A field that the response must have, or with `!` must not have; or the value or regular expression of a field.",
    repeatable: true, example: "header Content-Type = application/json;")
  static let body = DirectiveEntry.local(
    "body", .match, .words(2...2, "~|!~ REGEX"), "",
    "A regular expression that the first 64 KiB of the body must match, or must not match.", repeatable: true,
    example: "body ~ \"ready\";")

  static let directives = [check, match, status, header, body]

  static let workerParts: [WorkerPart.Type] = [HealthCheckers.self]

  /// The `match` blocks of a block, by name.
  struct Block: BlockPart {
    var matches: [String: ResponseMatch] = [:]
    var streamMatches: [String: StreamMatch] = [:]

    mutating func endBlock() { self = Block() }
  }

  static func prepare(
    _ groups: inout [ResolvedGroup], _ http: HTTPSettings, after former: Generation?, _ parts: inout GenerationParts
  ) {
    let records = HealthRecords(http, groups, after: former?[HealthRecords.self])
    for (index, health) in records.groups.enumerated() { groups[index].health = health }
    parts[HealthRecords.self] = records
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    HealthCheckSettings.read(draft, check, &builder)
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    guard let line = check.line(in: level.scope), !UpstreamPass.forwards(level.scope, builder.features) else {
      return
    }
    builder.error(
      line.location, "\"health_check\" in a location without proxy_pass or grpc_pass",
      hint: "write it beside the proxy_pass that names the upstream group; locations inside don't inherit it")
  }
}

extension DirectiveContexts {
  package static let match = DirectiveContexts(block: "match", in: .http)
  package static let streamMatch = DirectiveContexts(
    block: "match", in: .stream, named: "match in stream", isOfStream: true)
}
