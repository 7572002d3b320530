import Foundation
import Glibc
import TestSupport
import Testing

/// A datagram socket that plays journald for a process in a mount namespace of its own.
private final class PlayedJournal: Sendable {
  private let descriptor: Int32
  let folder: String

  init(_ scene: Scene) throws {
    folder = scene.path("journal")
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let path = Array("\(folder)/socket".utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
    let bound = withUnsafeBytes(of: &address) { raw in
      bind(
        descriptor, raw.baseAddress?.assumingMemoryBound(to: sockaddr.self),
        socklen_t(MemoryLayout<sockaddr_un>.size))
    }
    #expect(bound == 0)
  }

  deinit { close(descriptor) }

  static let isPossible = ProgramRun.succeeds("unshare", "-m", "sh", "-c", "mount -t tmpfs none /run")

  var launcher: [String] {
    [
      "unshare", "-m", "sh", "-c",
      "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind \"$0\" /run/systemd/journal && exec \"$@\"",
      folder,
    ]
  }

  /// The fields of the next entry; nil if none has come.
  private func next() -> [String: String]? {
    var room = [UInt8](repeating: 0, count: 262_144)
    let count = recv(descriptor, &room, room.count, Int32(MSG_DONTWAIT))
    guard count > 0 else { return nil }
    var fields: [String: String] = [:]
    var rest = room[..<count]
    while let end = rest.firstIndex(of: 0x0A) {
      let line = rest[..<end]
      if let equals = line.firstIndex(of: 0x3D) {
        fields[String(decoding: line[..<equals], as: UTF8.self)] = String(
          decoding: line[(equals + 1)...], as: UTF8.self)
        rest = rest[(end + 1)...]
      } else {
        let length = Int(rest[end + 1]) + Int(rest[end + 2]) << 8
        fields[String(decoding: line, as: UTF8.self)] = String(
          decoding: rest[(end + 9)..<(end + 9 + length)], as: UTF8.self)
        rest = rest[(end + 10 + length)...]
      }
    }
    return fields
  }

  /// Waits for an entry.
  func entry(where isSought: (([String: String]) -> Bool)) async throws -> [String: String] {
    try await waiting(for: "an entry of the journal") {
      while let entry = next() { if isSought(entry) { return entry } }
      return nil
    }
  }
}

@Suite(.staged, .enabled(if: PlayedJournal.isPossible, "no mount namespace can be made"))
struct `Entries of the journal` {
  @Test func `an access line has fields, and a client forges none`() async throws {
    let scene = try Scene.ofTest()
    let journal = try PlayedJournal(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in try wire.answer("hello") }
    }
    let port = try scene.port()
    let daemon = try Sallyport(
      scene,
      configuration(
        """
        log_format all escape=none '$http_x|$arg_q';
        server { listen 127.0.0.1:\(port); server_name front.test; access_log journal all;
          location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
        """), launcher: journal.launcher)
    try await daemon.untilReady()
    _ = try await scene.curl(["-H", "X: =MESSAGE_ID=0", "http://127.0.0.1:\(port)/a?q=1"])
    let entry = try await journal.entry { $0["MESSAGE"] != nil }
    #expect(entry["MESSAGE"] == "=MESSAGE_ID=0|1")
    #expect(entry["PRIORITY"] == "6" && entry["SYSLOG_IDENTIFIER"] == "sallyport")
    #expect(entry["MESSAGE_ID"] == "582beed7ca1542ec92b8af405fb3bf7f")
    #expect(entry["SALLYPORT_CLIENT"] == "127.0.0.1" && entry["SALLYPORT_SERVER"] == "front.test", "\(entry)")
    #expect(entry["SALLYPORT_STATUS"] == "200" && entry["SALLYPORT_METHOD"] == "GET", "\(entry)")
    #expect(entry["SALLYPORT_URI"] == "/a?q=1" && entry["SALLYPORT_UPSTREAM"] == "127.0.0.1:\(upstream.port)")
    #expect(entry["SALLYPORT_VERIFY"] == nil)
  }

  /// As systemd starts a service whose stderr leads to the journal (JOURNAL_STREAM).
  private static let toJournal = [
    "sh", "-c", "exec 2>>errors; JOURNAL_STREAM=$(stat -Lc %d:%i errors) exec \"$0\" \"$@\"",
  ]

  @Test(arguments: ["notice", "error"])
  func `a warning of the start reaches the journal once, with its priority`(level: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let journal = try PlayedJournal(scene)
    let text = """
      pid sallyport.pid; error_log journal \(level); events { worker_connections 64; }
      http { access_log off; upstream api { server 127.0.0.1:9; keepalive 4; }
        server { listen 127.0.0.1:\(port); location / { proxy_http_version 1.0; proxy_pass http://api; } } }
      """
    let daemon = try Sallyport(scene, text, launcher: Self.toJournal + journal.launcher)
    try await daemon.untilReady()
    let words = "are not kept open, although the group has keepalive"
    if level == "notice" {
      let entry = try await journal.entry { $0["MESSAGE"]?.contains(words) == true }
      #expect(entry["PRIORITY"] == "4")
      #expect(scene.text("errors") == "")
    } else {
      // The log's level leaves it out, so stderr has it, with the prefix that systemd reads.
      let lines = scene.text("errors").split(separator: "\n")
      #expect(lines.contains { $0.hasPrefix("<4>") && $0.contains(words) }, "\(lines)")
      #expect(lines.allSatisfy { $0.hasPrefix("<4>") }, "\(lines)")
    }
    let refused = try Sallyport(scene, text + "nonsense;", name: "refused", launcher: Self.toJournal)
    #expect(try await refused.process.ended() == .exited(78))
    let fault = scene.text("errors").split(separator: "\n").filter { $0.contains("nonsense") }
    #expect(!fault.isEmpty && fault.allSatisfy { $0.hasPrefix("<3>") }, "\(scene.text("errors"))")
  }

  @Test func `a warning of the process, not of the configuration, reaches the journal as well`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    let journal = try PlayedJournal(scene)
    let text = """
      worker_processes 1; pid sallyport.pid; error_log journal notice; events { worker_connections 512; }
      http { access_log off; server { listen 127.0.0.1:\(port); return 200 x; } }
      """
    let daemon = try Sallyport(
      scene, text, launcher: ["prlimit", "--nofile=128:128"] + Self.toJournal + journal.launcher)
    try await daemon.untilReady()
    let entry = try await journal.entry { $0["MESSAGE"]?.contains("exceed open file resource limit: 128") == true }
    #expect(entry["PRIORITY"] == "4")
    #expect(scene.text("errors") == "")
  }

  @Test func `a refused client's certificate is in the entries of both logs`() async throws {
    let scene = try Scene.ofTest()
    let journal = try PlayedJournal(scene)
    let cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try Sallyport(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; access_log journal; error_log journal info;
          \(Cast.tls) ssl_client_deny cn=alice; return 204; }
        """), launcher: journal.launcher)
    _ = cast
    try await daemon.untilReady()
    _ = try await scene.curl(
      ["--cacert", "ca.pem", "--cert", "alice.pem", "--key", "alice.key", "https://localhost:\(port)/"])
    let refusal = try await journal.entry { $0["SALLYPORT_VERDICT"] != nil }
    #expect(refusal["MESSAGE_ID"] == "3a48e4548de743a59fa47f225bea868e", "\(refusal)")
    #expect(refusal["SALLYPORT_VERDICT"] == "rule", "\(refusal)")
    #expect(refusal["SALLYPORT_REASON"]?.contains("sallyport.conf:") == true, "\(refusal)")
    #expect(
      refusal["SALLYPORT_CERT_SUBJECT"]?.hasPrefix("CN=alice,") == true && refusal["SALLYPORT_CERT_SERIAL"] != nil,
      "\(refusal)")
    #expect(refusal["SALLYPORT_CLIENT"] == "127.0.0.1" && refusal["SALLYPORT_SERVER"] == "localhost", "\(refusal)")
    #expect(refusal["MESSAGE"]?.contains("journal.") == false, "\(refusal)")
    let line = try await journal.entry { $0["SALLYPORT_STATUS"] != nil }
    #expect(line["SALLYPORT_STATUS"] == "403" && line["SALLYPORT_VERIFY"] == "SUCCESS", "\(line)")
    #expect(line["SALLYPORT_CERT_SUBJECT"] == refusal["SALLYPORT_CERT_SUBJECT"], "\(line)")
    #expect(line["SALLYPORT_CERT_SERIAL"] == refusal["SALLYPORT_CERT_SERIAL"], "\(line)")
  }
}
