import Foundation
import TestSupport
import Testing

/// What clients of nginx Plus ask for, and which members of the answers they read, as their source says: nobody of them runs
/// here, so a member that is missing or of another type would show first at a user's.
@Suite(.staged) struct `Clients of nginx Plus` {
  private enum Kind { case number, text, flag }

  private struct Request {
    let path: String
    /// `*` is each value of an object or array.
    let members: [String: Kind]

    init(_ path: String, _ members: [String: Kind] = [:]) {
      self.path = path
      self.members = members
    }
  }

  private static func numbers(_ names: String...) -> [String: Kind] {
    Dictionary(names.map { ($0, .number) }) { first, _ in first }
  }

  private static let nginx: [String: Kind] = [
    "version": .text, "build": .text, "address": .text, "generation": .number, "load_timestamp": .text,
    "timestamp": .text, "pid": .number, "ppid": .number,
  ]
  private static let connections = numbers("accepted", "dropped", "active", "idle")
  private static let zone = numbers(
    "*.requests", "*.responses.1xx", "*.responses.2xx", "*.responses.3xx", "*.responses.4xx", "*.responses.5xx",
    "*.responses.total", "*.processing", "*.discarded", "*.received", "*.sent")
  private static let peer: [String: Kind] = numbers(
    "*.peers.*.id", "*.peers.*.weight", "*.peers.*.active", "*.peers.*.fails", "*.peers.*.unavail", "*.peers.*.sent",
    "*.peers.*.received", "*.peers.*.max_conns", "*.peers.*.health_checks.checks", "*.peers.*.health_checks.fails",
    "*.peers.*.health_checks.unhealthy", "*.peers.*.downtime"
  ).merging([
    "*.peers.*.server": .text, "*.peers.*.name": .text, "*.peers.*.state": .text, "*.peers.*.backup": .flag,
    "*.zone": .text,
  ]) { first, _ in first }
  private static let upstreams = peer.merging(
    numbers(
      "*.peers.*.requests", "*.peers.*.responses.1xx", "*.peers.*.responses.2xx", "*.peers.*.responses.3xx",
      "*.peers.*.responses.4xx", "*.peers.*.responses.5xx", "*.peers.*.responses.total", "*.keepalive")
  ) { first, _ in first }
  private static let streams = peer.merging(numbers("*.peers.*.connections")) { first, _ in first }
  private static let sessions = numbers(
    "*.processing", "*.connections", "*.sessions.2xx", "*.sessions.4xx", "*.sessions.5xx", "*.sessions.total",
    "*.discarded", "*.received", "*.sent")
  private static let limited = numbers("*.passed", "*.rejected", "*.rejected_dry_run")
  private static let delayed = numbers(
    "*.passed", "*.delayed", "*.rejected", "*.delayed_dry_run", "*.rejected_dry_run")
  private static let ssl = numbers("handshakes", "handshakes_failed", "session_reuses")

  /// What all of them ask for.
  private static let common = [
    Request("nginx", nginx), Request("processes", numbers("respawned")), Request("connections", connections),
    Request("ssl", ssl), Request("http/requests", numbers("total", "current")), Request("http/server_zones", zone),
    Request("http/upstreams", upstreams), Request("stream/server_zones", sessions),
    Request("stream/upstreams", streams), Request("http/caches"), Request("slabs"), Request("http/location_zones"),
    Request("resolvers"),
  ]
  private static let limits = [
    Request("http/limit_reqs", delayed), Request("http/limit_conns", limited), Request("stream/limit_conns", limited),
  ]

  /// The version that each asks for by itself, and its requests.
  private static let clients: [(name: String, version: Int, requests: [Request])] = [
    ("the exporter of Prometheus", 9, common + limits + [Request("workers", ["*.id": .number, "*.pid": .number])]),
    ("nginx Plus's dashboard", 6, common + [Request(""), Request("http"), Request("stream")]),
    ("Telegraf", 3, common),
    ("Datadog's agent", 2, common + limits),
  ]

  @Test(arguments: clients.indices) func `find what they read, of the type that they expect`(client: Int) async throws {
    let (name, version, requests) = Self.clients[client]
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while let _ = try? wire.read(through: "\r\n\r\n") {
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
      }
    }
    let (port, tcp, socket) = (try scene.port(), try scene.port(), scene.path("api.sock"))
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        limit_req_zone $binary_remote_addr zone=rate:64k rate=100r/s;
        limit_conn_zone $binary_remote_addr zone=few:64k;
        upstream app { zone app 64k; server 127.0.0.1:\(upstream.port); server 127.0.0.1:1 backup; keepalive 4; }
        server { listen 127.0.0.1:\(port); server_name app.example; limit_req zone=rate; limit_conn few 10;
          location / { proxy_pass http://app; } }
        server { listen unix:\(socket); location /api { api; } }
        """)
          + """

          stream {
            limit_conn_zone $binary_remote_addr zone=sessions:64k;
            upstream tcp { zone tcp 64k; server 127.0.0.1:\(upstream.port); }
            server { listen 127.0.0.1:\(tcp); limit_conn sessions 10; proxy_pass tcp; }
          }
          """)
    for door in [port, tcp, port] {
      #expect(try await scene.curl(["--http1.1", "http://127.0.0.1:\(door)/"]).status == 200)
    }
    for request in requests {
      let answer = try await scene.curl(["--unix-socket", socket, "http://localhost/api/\(version)/\(request.path)"])
      #expect(answer.status == 200 && answer["Content-Type"] == "application/json", "\(request.path)")
      let json = try JSONSerialization.jsonObject(with: Data(answer.body))
      for (member, kind) in request.members {
        let found = Self.values(of: member.split(separator: "."), in: json)
        #expect(
          !found.isEmpty && found.allSatisfy { Self.isOf(kind, $0) },
          "\(name): \(request.path) \(member): \(answer.text)")
      }
    }
    // A dashboard that may not write finds that out by this request.
    let trial = try await scene.curl(
      ["--unix-socket", socket, "-X", "DELETE"]
        + ["http://localhost/api/\(version)/http/upstreams/DASHBOARD_INIT/servers/__TEST_FOR_WRITE__"])
    #expect(trial.status == 405)
  }

  /// The values at a place; an absent one is nil.
  private static func values(of path: [Substring], in json: Any?) -> [Any?] {
    guard let first = path.first else { return [json] }
    let rest = Array(path.dropFirst())
    if first != "*" { return values(of: rest, in: (json as? [String: Any])?[String(first)]) }
    let all = (json as? [String: Any]).map { Array($0.values) } ?? json as? [Any] ?? []
    return all.flatMap { values(of: rest, in: $0) }
  }

  private static func isOf(_ kind: Kind, _ value: Any?) -> Bool {
    switch kind {
    case .text: value is String
    case .flag: value is Bool
    case .number: value is Int
    }
  }
}
