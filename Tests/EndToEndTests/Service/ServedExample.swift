import Foundation
import TestSupport
import Testing

/// A file of config/, served by sallyport and by a real nginx: with ports of this test's in place of those that it names,
/// and nginx 1.22's spelling where that nginx is too old.
struct ServedExample: Sendable {
  enum Server: String, CaseIterable, Sendable { case sallyport, nginx }

  let scene: Scene
  let daemon: Sallyport
  private let ports: [Server: [Int: UInt16]]

  /// `upstreams`: a port of 127.0.0.1 in the file, and what is there in its place. `changing`: other texts of the file.
  init(
    _ scene: Scene, _ name: String, upstreams: [Int: UInt16] = [:], changing: [(String, String)] = []
  ) async throws {
    self.scene = scene
    let file = try String(contentsOfFile: "\(checkout)/config/\(name).conf", encoding: .utf8)
    let listened = Set(file.matches(of: #/listen (\d+)/#).compactMap { Int($0.output.1) })
    var ports: [Server: [Int: UInt16]] = [:], texts: [Server: String] = [:]
    for server in Server.allCases {
      let own = try Dictionary(uniqueKeysWithValues: listened.map { ($0, try scene.port()) })
      ports[server] = own
      var text = changing.reduce(file) { $0.replacing($1.0, with: $1.1) }
        .replacing(#/listen (\d+)/#) { "listen 127.0.0.1:\(Int($0.output.1).flatMap { own[$0] } ?? 0)" }
        .replacing(#/127\.0\.0\.1:(\d+)/#) { match in
          "127.0.0.1:\(Int(match.output.1).flatMap { upstreams[$0] }.map(String.init) ?? String(match.output.1))"
        }
        .replacing("worker_processes auto;", with: "worker_processes 1;")
      switch server {
      case .sallyport:
        text = text.replacing("error_log stderr warn;", with: "error_log error.log info; pid sallyport.pid;")
      case .nginx:
        text = text.replacing(#/listen ([0-9.:]+) ssl;(\s+)http2 on;/#) { "listen \($0.output.1) ssl http2;" }
          .replacing("error_log stderr warn;", with: "error_log nginx.err info;")
          .replacing(#/(?m)^http \{/#, with: "http { \(NginxUpstream.ownPaths(in: scene.folder))")
      }
      texts[server] = text
    }
    self.ports = ports
    daemon = try await Sallyport.start(scene, texts[.sallyport] ?? "")
    try await Self.startNginx(scene, texts[.nginx] ?? "", ports[.nginx].map { Array($0.values) } ?? [])
  }

  private static func startNginx(_ scene: Scene, _ text: String, _ ports: [UInt16]) async throws {
    let configuration = try scene.write("nginx.conf", text: text)
    let process = try ChildProcess(
      "nginx",
      [
        "-p", scene.folder, "-e", "nginx.err", "-c", configuration, "-g",
        "daemon off; master_process off; pid nginx.pid;",
      ],
      in: scene.folder, output: scene.path("nginx.out"), errors: scene.path("nginx.out2"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "nginx") { scene.text("nginx.err") }
    try await until("nginx to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "nginx ended, \(ending): \(scene.text("nginx.err"))")
      }
      return ports.allSatisfy { (try? Wire.dial(port: $0)) != nil }
    }
  }

  /// The port in place of the one that the file names.
  func port(_ server: Server, _ written: Int = 443) -> UInt16 { ports[server]?[written] ?? 0 }

  /// What a client gets: status, fields and body.
  func ask(_ server: Server, _ url: String, _ options: [String] = [], written: Int = 443) async throws -> String {
    let port = port(server, written)
    let result = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)", "--path-as-is"] + options + [url])
    let fields = result.response.fields.filter { !Self.unequal.contains($0.name.lowercased()) }
      .map { "\($0.name): \($0.value)" }.sorted()
    // The standard pages differ in the product's name.
    var body = result.text.contains("<hr>") ? "a page" : result.text
    // With -I, curl writes the head as the body.
    if body.hasPrefix("HTTP/") { body = "" }
    return (["\(result.exit) \(result.status)"] + fields + [body]).joined(separator: "\n")
      .replacing("\(port)", with: "PORT")
  }

  private static let unequal: Set<String> = [
    "date", "server", "connection", "keep-alive", "content-length", "transfer-encoding",
    // A time, which both may take in different seconds; Cache-Control says the same.
    "expires",
  ]

  /// Asks both for each, and expects one answer, which begins with this status.
  func expectSame(
    _ requests: [(status: Int, url: String, options: [String])], written: Int = 443,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    for (status, url, options) in requests {
      let (ours, theirs) = try await (
        ask(.sallyport, url, options, written: written), ask(.nginx, url, options, written: written)
      )
      #expect(ours == theirs, "\(url) \(options)", sourceLocation: sourceLocation)
      #expect(ours.hasPrefix("0 \(status)\n"), "\(url) \(options): \(ours)", sourceLocation: sourceLocation)
    }
  }
}

extension ScriptedUpstream {
  /// An application that says what reached it, apart from what each proxy says of the connection.
  static func application(_ scene: Scene, _ name: String = "app", fields: [String] = []) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene, records: false) { wire, _ in
      try wire.serve { request in
        let seen = request.fields.filter { !["connection", "user-agent", "accept"].contains($0.name.lowercased()) }
          .map { "\($0.name.lowercased()): \($0.value)" }.sorted()
        let text = ([name, request.method, request.target] + seen + [request.text]).joined(separator: "|") + "\n"
        try wire.answer(text, fields: ["Content-Type: text/plain"] + fields)
      }
    }
  }
}
