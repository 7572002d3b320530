import Glibc
import HTTP
import Testing
import Transport

@testable import Upstream

@Suite struct `Whether another attempt follows` {
  private func said(_ change: (inout RetrySettings) -> Void) -> RetrySettings {
    var settings = RetrySettings()
    change(&settings)
    return settings
  }

  private func decide(
    _ condition: RetryConditions, settings: RetrySettings = RetrySettings(), servers: Int = 3,
    _ alter: (inout RetryPolicy.Situation) -> Void = { _ in }
  ) -> RetryPolicy.Decision {
    var situation = RetryPolicy.Situation(
      method: .get, requestBegun: true, bodyReplayable: true, responseBegun: false, onKeptConnection: false,
      attempts: 1,
      deadConnections: 0, elapsed: 0)
    alter(&situation)
    return RetryPolicy(settings: settings, servers: servers).decide(condition, situation)
  }

  @Test func `errors and timeouts go to the next server, answers do not unless told to`() {
    #expect(decide(.error) == .nextServer && decide(.timeout) == .nextServer)
    #expect(decide(.http502) == .giveUp && decide(.invalidHeader) == .giveUp)
    #expect(decide(.http502, settings: said { $0.conditions = [.http502] }) == .nextServer)
    #expect(decide(.error, settings: said { $0.conditions = [] }) == .giveUp)
    #expect(decide([]) == .giveUp)
  }

  @Test func `a method that is not idempotent is repeated only if nothing was sent, or aloud`() {
    #expect(decide(.error) { $0.method = .post } == .giveUp)
    #expect(
      decide(.error) {
        $0.method = .post
        $0.requestBegun = false
      } == .nextServer)
    #expect(
      decide(.error, settings: said { $0.conditions.insert(.nonIdempotent) }) { $0.method = .post } == .nextServer)
    // Nor on a kept connection that was dead: whether it was, nobody knows.
    #expect(
      decide(.error) {
        $0.method = .post
        $0.onKeptConnection = true
      } == .giveUp)
  }

  @Test func `nothing is repeated once the client has bytes, or the body is gone`() {
    #expect(decide(.error) { $0.responseBegun = true } == .giveUp)
    #expect(decide(.error) { $0.bodyReplayable = false } == .giveUp)
    #expect(
      decide(.error) {
        $0.bodyReplayable = false
        $0.requestBegun = false
      } == .nextServer)
  }

  @Test func `a dead kept connection is no try, once`() {
    func dead(_ count: Int) -> RetryPolicy.Decision {
      decide(.error, settings: said { $0.conditions = [] }, servers: 1) {
        $0.onKeptConnection = true
        $0.deadConnections = count
      }
    }
    #expect(dead(1) == .sameServer)
    #expect(dead(2) == .giveUp)
  }

  @Test func `tries, servers and time bound it`() {
    #expect(decide(.error) { $0.attempts = 3 } == .giveUp)
    #expect(decide(.error, settings: said { $0.tries = 2 }) { $0.attempts = 1 } == .nextServer)
    #expect(decide(.error, settings: said { $0.tries = 2 }) { $0.attempts = 2 } == .giveUp)
    #expect(decide(.error, settings: said { $0.tries = 9 }) { $0.attempts = 3 } == .giveUp)
    #expect(decide(.error, settings: said { $0.timeout = 1000 }) { $0.elapsed = 999 } == .nextServer)
    #expect(decide(.error, settings: said { $0.timeout = 1000 }) { $0.elapsed = 1000 } == .giveUp)
  }

  @Test func `each failure has its condition and the client's status`() {
    let refused = SocketError("connect", 111)
    let failures: [(AttemptFailure, RetryConditions, Int)] = [
      (.connect(refused), .error, 502), (.connectTimeout, .timeout, 504), (.tls("pin: x"), .error, 502),
      (.readTimeout, .timeout, 504), (.sendTimeout, .timeout, 504), (.closedBeforeHead, .error, 502),
      (.broken("SSL_read() failed"), .error, 502), (.unsolicitedBytes, .invalidHeader, 502), (.noServer, [], 502),
      (.proxy("p:1", .connect(refused)), .error, 502), (.proxy("p:1", .timeout), .timeout, 504),
      (.proxy("p:1", .answer("x")), .error, 502),
      (.proxy("p:1", .connect(SocketError("bind", EADDRNOTAVAIL))), [], 500),
    ]
    for (failure, condition, status) in failures {
      #expect(failure.condition == condition && failure.status == status)
    }
    // nginx doesn't repeat what an upstream has refused, and its answer is 502.
    let ours = SocketError("connect", EADDRNOTAVAIL)
    for failure in [
      AttemptFailure.connect(ours), .connect(refused), .connectTimeout, .noRoom, .noServer, .tls("x"),
      .proxy("p", .timeout),
    ] {
      #expect(failure.status(repeatsRefusal: true) == 502, "\(failure)")
      #expect(failure.status(repeatsRefusal: false) == failure.status)
    }
    #expect(AttemptFailure.readTimeout.status(repeatsRefusal: true) == 504)
    #expect(AttemptFailure.proxy("p:1", .answer("x")).description.hasSuffix("through the proxy p:1"))
    #expect(
      AttemptFailure.broken("SSL_read() failed (SSL: x)").description
        == "SSL_read() failed (SSL: x) while reading response header from upstream")
  }
}
