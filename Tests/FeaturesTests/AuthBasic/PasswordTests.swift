import Bytes
import Enrolment
@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Passwords at the door` {
  private static let http = """
    server {
      listen 80; auth_basic_user_file /nowhere/users;
      location /door { auth_basic x; stub_status; }
      location /same { auth_basic x; auth_basic_user_file /nowhere/./a/../users; stub_status; }
      location /other { auth_basic x; auth_basic_user_file /nowhere/others; stub_status; }
      location /none { stub_status; }
    }
    """
  private static let request = "GET /door HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n"
  /// The address of the rig's clients.
  private static let address = "192.0.2.1"

  /// Occupies the pool's threads, so that no password is hashed before the test raises the returned flag.
  private func holdThreads(of rig: Rig) async throws -> Flag {
    let pool = rig.worker.shared.pool
    let held = Flag(), begun = (Flag(), Flag())
    for flag in [begun.0, begun.1] {
      _ = pool.run(.passwords, for: "held") {
        flag.raise()
        held.wait()
      }
    }
    try await until("both threads to be taken") { begun.0.isRaised && begun.1.isRaised }
    return held
  }

  @Test func `one that waits is not looked at any more when its client has gone`() async throws {
    let rig = try Rig(Self.http)
    let pool = rig.worker.shared.pool
    let held = try await holdThreads(of: rig)
    defer { held.raise() }
    let (session, peer) = try rig.connect()
    session.begin()
    let bytes = Array(Self.request.utf8)
    #expect(send(peer, bytes, bytes.count, 0) == bytes.count)
    session.transport.ready([.input])
    #expect(pool.waiting(.passwords, for: Self.address) == 1)
    close(peer)
    session.transport.ready([.input, .peerEnd])
    #expect(session.isClosed)
    #expect(pool.waiting(.passwords, for: Self.address) == 0)
  }

  @Test func `one that would have to wait is not looked at when its client went with the request`() async throws {
    let rig = try Rig(Self.http)
    let pool = rig.worker.shared.pool
    let bytes = Array(Self.request.utf8)
    for isHeld in [true, false] {
      let held = isHeld ? try await holdThreads(of: rig) : nil
      defer { held?.raise() }
      let (session, peer) = try rig.connect()
      session.begin()
      #expect(send(peer, bytes, bytes.count, 0) == bytes.count)
      close(peer)
      session.transport.ready([.input, .peerEnd])
      #expect(pool.waiting(.passwords, for: Self.address) == 0 || !isHeld)
      // A client that has only closed its sending side still gets a response, unless others wait for threads.
      #expect((session.isClosed) == isHeld)
      session.close()
      try await until("the threads to be free") {
        held?.raise(); return pool.isIdle(.passwords)
      }
    }
  }

  @Test func `one address has a bound on what waits, and is told to come again`() async throws {
    let rig = try Rig(Self.http)
    let pool = rig.worker.shared.pool
    let held = try await holdThreads(of: rig)
    defer { held.raise() }
    while case .taken = pool.run(.passwords, for: Self.address, {}) {}
    let answer = try rig.answer(Self.request)
    #expect(answer.hasPrefix("HTTP/1.1 429 ") && answer.contains("\r\nRetry-After: 1\r\n"), "\(answer)")
    guard case .taken = pool.run(.passwords, for: "another", {}) else {
      return #expect(Bool(false), "nobody else is kept out")
    }
  }

  @Test func `those of a file that an enrolment guards are counted wherever they are asked`() throws {
    func limit(_ path: String, enrols: Bool = true) throws -> FailureWindow.Limit? {
      let enrolments = """
        location = /e1 { auth_basic x; enrolment on; enrolment_authority /nowhere/ca; enrolment_failures 7 20s; }
        location = /e2 { auth_basic x; enrolment on; enrolment_authority /nowhere/ca; enrolment_failures 9 90s; }
        """
      let http = Self.http.replacing("location /none", with: "\(enrols ? enrolments : "") location /none")
      let generation = try Rig(http).live.generation
      let location = generation.http.servers[0].root.locations.first {
        if case .prefix(let prefix) = $0.match { prefix == Array(path.utf8) } else { false }
      }
      return try #require(location)[AuthBasic.self]?.users.flatMap { generation[GuessLimits.self].limits[$0] }
    }
    // The stricter of the two limits.
    let guarded = FailureWindow.Limit(count: 7, time: 90)
    #expect(try limit("/door") == guarded)
    #expect(try limit("/same") == guarded)
    #expect(try limit("/other") == nil)
    #expect(try limit("/none") == nil)
    #expect(try limit("/door", enrols: false) == nil)
  }
}
