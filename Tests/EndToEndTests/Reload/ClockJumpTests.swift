import Crypto
import Glibc
import TestSupport
import Testing

/// A preloaded library gives the daemon a wall clock that a file sets. The monotonic clock stays.
@Suite(
  .staged,
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
      environment: try await ClockJump.environment(scene))
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
  /// What the process needs for the clock that the scene's file `clock` sets: the time that is added, as `+2d` or in seconds.
  /// Files' times stay as they are. Not libfaketime, which also replaces functions of timers and makes them spin.
  static func environment(_ scene: Scene, _ time: String = "+0") async throws -> [String: String] {
    try scene.write("clock", text: time + "\n")
    let library = scene.path("clock.so")
    if access(library, R_OK) != 0 {
      try await scene.succeed(
        "clang", "-shared", "-fPIC", "-O1", "-o", library, scene.write("clock.c", text: source))
    }
    return ["LD_PRELOAD": library, "WALL_CLOCK_FILE": scene.path("clock")]
  }

  private static let source = #"""
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    static long added(void) {
      const char *path = getenv("WALL_CLOCK_FILE");
      int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
      if (file < 0) return 0;
      char text[32] = {0}, *unit;
      syscall(SYS_read, file, text, sizeof text - 1);
      syscall(SYS_close, file);
      long number = strtol(text, &unit, 10);
      return *unit == 'd' ? number * 86400 : number;
    }

    int clock_gettime(clockid_t clock, struct timespec *now) {
      int result = (int)syscall(SYS_clock_gettime, clock, now);
      if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += added();
      return result;
    }

    time_t time(time_t *out) {
      struct timespec now;
      clock_gettime(CLOCK_REALTIME, &now);
      if (out) *out = now.tv_sec;
      return now.tv_sec;
    }

    int gettimeofday(void *out, void *zone) {
      struct timespec now;
      clock_gettime(CLOCK_REALTIME, &now);
      long *parts = out;
      parts[0] = now.tv_sec;
      parts[1] = now.tv_nsec / 1000;
      return 0;
    }
    """#

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
