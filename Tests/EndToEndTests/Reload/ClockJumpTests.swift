import Crypto
import Glibc
import TestSupport
import Testing

/// libfaketime gives the daemon a wall clock that a file sets. The monotonic clock stays. Timers aren't tested: libfaketime
/// doesn't support timerfd.
@Suite(
  .staged, .enabled(if: access(ClockJump.library, R_OK) == 0, "libfaketime is not installed"),
  .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"))
struct `The wall clock jumps` {
  @Test func `requests go on, and certificates are judged by the new time`() async throws {
    let scene = try Scene.ofTest(), gate = Flag()
    try ClockJump.identities(scene)
    let alice = ClockJump.curl(scene, "alice"), bob = ClockJump.curl(scene, "bob")
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while try wire.read(through: "\r\n\r\n") != nil {
        gate.wait()
        try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
      }
    }
    let port = try scene.port(), plain = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) location / { return 200 ok; } }
        server { listen 127.0.0.1:\(plain);  location / { return 200 ok; } location /up { proxy_pass http://127.0.0.1:\(upstream.port); } }
        """),
      environment: ClockJump.environment(scene))
    func status(_ who: [String]) async throws -> Int {
      try await scene.curl(who + ["--connect-to", "::127.0.0.1:\(port)", "https://localhost/"]).status
    }
    let kept = try await offPool { try (0..<2).map { _ in try Wire.dial(port: plain) } }
    let (busy, idle) = (kept[0], kept[1])
    func ask(_ wire: Wire) async throws {
      try await offPool {
        try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try wire.read(through: "\r\n\r\nok") != nil)
      }
    }
    for who in [alice, bob] { #expect(try await status(who) == 200) }
    try await ask(idle)
    try busy.write("GET /up HTTP/1.1\r\nHost: localhost\r\n\r\n")
    try await until("the request to be under way") { upstream.connections == 1 }
    // Bob's certificate ends in a day.
    for (jump, admitted) in [("+2d", 400), ("+0", 200), ("-2d", 200), ("+2d", 400), ("-2d", 200)] {
      try scene.write("clock", text: jump + "\n")
      try await until("bob's certificate to be judged at \(jump)") { try await status(bob) == admitted }
      #expect(try await status(alice) == 200)
      try await ask(idle)
    }
    gate.raise()
    try await offPool { () throws -> Void in #expect(try busy.read(through: "\r\n\r\nup") != nil) }
    let line = try await daemon.logged("certificate has expired")
    // Midnight may pass while the test runs.
    #expect(line.hasPrefix(ClockJump.day(2)) || line.hasPrefix(ClockJump.day(1)))
    #expect(!daemon.errorLog.contains("[alert]") && !daemon.errorLog.contains("[error]"))
    kept.forEach { $0.close() }
  }
}

enum ClockJump {
  static let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

  /// Files' times stay as they are.
  static func environment(_ scene: Scene) throws -> [String: String] {
    try scene.write("clock", text: "+0\n")
    return [
      "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": scene.path("clock"), "FAKETIME_NO_CACHE": "1",
      "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
    ]
  }

  /// Certificates that began ten days ago. Bob's ends in a day.
  static func identities(_ scene: Scene) throws {
    let now = Int64(time(nil)), begin = now - 10 * 86_400
    var root = CertificateBuilder(commonName: "Old Root", .authority(pathLength: nil))
    root.notBefore = begin
    let authority = try root.selfSigned(key: .generate())
    try scene.write("ca.pem", text: authority.certificate.pem)
    for (name, purpose, days) in [("server", true, 300), ("alice", false, 300), ("bob", false, 1)]
      as [(String, Bool, Int64)]
    {
      var leaf = CertificateBuilder(
        commonName: name, .leaf([purpose ? .serverAuth : .clientAuth]), names: purpose ? [.dns("localhost")] : [])
      (leaf.notBefore, leaf.notAfter) = (begin, now + days * 86_400)
      _ = try scene.identity(name, leaf.signed(by: authority, key: .generate()))
    }
  }

  /// Runs `body` while connections to `port` wake the daemon, which must have one worker: libfaketime may hold back the
  /// timer of an idle one.
  static func waking<Value: Sendable>(
    _ port: UInt16, _ body: @Sendable () async throws -> Value
  ) async throws -> Value {
    let waker = Task {
      while !Task.isCancelled {
        (try? Wire.dial(port: port))?.close()
        try await Task.sleep(for: .milliseconds(100))
      }
    }
    defer { waker.cancel() }
    return try await body()
  }

  /// A configuration with one worker.
  static func ofOneWorker(_ text: String) -> String {
    text.replacing("worker_processes 2;", with: "worker_processes 1;")
  }

  static func curl(_ scene: Scene, _ name: String) -> [String] {
    ["--cacert", scene.path("ca.pem"), "--cert", scene.path("\(name).pem"), "--key", scene.path("\(name).key")]
  }

  /// How a line of the log begins in so many days.
  static func day(_ days: Int) -> String {
    var moment = time(nil) + days * 86_400, parts = tm()
    localtime_r(&moment, &parts)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(parts.tm_year + 1900)/\(two(parts.tm_mon + 1))/\(two(parts.tm_mday))"
  }
}
