import Crypto
import Forward
import Language
import Traffic
import Upstream

/// `upstream` blocks (nginx: ngx_http_upstream_module, ngx_http_upstream_keepalive_module).
enum UpstreamGroups: Feature {
  static let chapter = Chapter.upstreams
  static let kinds: Set<TrafficKind> = [.http, .stream]
  static let workerParts: [WorkerPart.Type] = [NameFollowers.self]
  private static let parameters =
    "[weight=N] [max_fails=N] [fail_timeout=TIME] [max_conns=N] [slow_start=TIME] [backup] [down] [resolve] [service=NAME]"
  private static let help =
    "One server of the group. `resolve`: DNS says its addresses, again whenever they have expired; needs `zone` and"
    + " `resolver`. `service`: by the SRV records of that service."

  static let block = DirectiveEntry.local(
    "upstream", [.http, .stream], .block(1...1, "NAME"), "A group of servers that `proxy_pass` can name.",
    repeatable: true,
    example: "upstream app { server 10.0.0.1:8080; server 10.0.0.2:8080 backup; }", trust: .told)
  static let server = DirectiveEntry.local(
    "server", .upstream, .words(1...Int.max, "ADDRESS \(parameters) [route=NAME] [drain]"), help, repeatable: true,
    example: "server 10.0.0.1:8080 weight=3 max_fails=2 fail_timeout=30s;", trust: .told)
  static let state = DirectiveEntry.local(
    "state", [.upstream, .streamUpstream], .words(1...1, "FILE"),
    "The file that keeps the servers of a group with `zone`. The API adds, changes and removes them, and writes it; a restart"
      + " and a reload read it. No `server` may stand beside it.",
    example: "state /var/lib/sallyport/app.servers;", trust: .told)
  static let kept = Row<KeepaliveSettings>.line(
    "keepalive", .upstream, .words(1...2, "NUMBER [local]"), initial: "32 local",
    "The number of idle connections that a worker keeps for the group; those above it are closed after a second, and 0"
      + " keeps none. With `local`, a connection serves only the location that opened it.", example: "keepalive 32;"
  ) { ($0.connections, $0.isLocal) = keptConnections($1, &$2) }

  static let directives: [DirectiveEntry] =
    [
      block, server,
      .local(
        "server", .streamUpstream, .words(1...Int.max, "ADDRESS:PORT \(parameters)"), help, repeatable: true,
        example: "server 10.0.0.1:5432 max_conns=100;", trust: .told),
      state,
    ] + keepalive.entries

  static let keepalive = Row<KeepaliveSettings>.local([
    kept,
    .number(
      "keepalive_requests", .upstream, 0...Int.max, \.requests,
      "The maximum number of requests on a kept connection.", example: "keepalive_requests 10000;", trust: .none),
    .milliseconds(
      "keepalive_time", .upstream, \.time, "The maximum total time of a kept connection.",
      example: "keepalive_time 10m;", trust: .none),
    .milliseconds(
      "keepalive_timeout", .upstream, \.timeout, "The maximum idle time of a kept connection.",
      example: "keepalive_timeout 30s;", trust: .none),
  ])

}

extension UpstreamGroups {
  static func stateFiles(_ http: HTTPSettings) -> [String] { http.groups.compactMap(\.stateFile) }

  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    http.groups.compactMap(\.stateFile).map { .path(.change, NewFile.folder(of: $0)) }
  }
}

extension KeepaliveSettings: RowSettings {}
