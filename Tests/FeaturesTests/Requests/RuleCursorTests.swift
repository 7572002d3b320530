import Bytes
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic

@Suite struct `The rules of a session` {
  /// The actions of the cursor when the rules give these outcomes, one after another.
  private func actions(_ outcomes: [RuleOutcome], of count: Int) -> [RuleCursor.Action] {
    var cursor = RuleCursor()
    return [cursor.next(count)] + outcomes.map { cursor.take($0, count) }
  }

  @Test func `run one after another, and then the client is admitted`() {
    #expect(actions([], of: 0) == [.admit])
    #expect(actions([.next, .next], of: 2) == [.run(0), .run(1), .admit])
  }

  @Test func `no grant makes another rule needless`() {
    #expect(actions([.granted, .refused(.address)], of: 2) == [.run(0), .run(1), .refuse(.address)])
  }

  @Test(arguments: [RefusalCause.address, .limit(status: 503), .upstream, .fault])
  func `the first refusal ends them`(cause: RefusalCause) {
    #expect(actions([.refused(cause)], of: 3) == [.run(0), .refuse(cause)])
  }

  @Test func `a rule that waits is followed by its outcome`() {
    #expect(actions([.wait, .next], of: 2) == [.run(0), .stop, .run(1)])
    #expect(actions([.wait, .refused(.limit(status: 503))], of: 1) == [.run(0), .stop, .refuse(.limit(status: 503))])
  }
}

/// A session of `stream` whose client is in memory: what it does with the outcomes of its rules.
@Suite struct `A session of stream` {
  @Test func `gets a result for each cause of a refusal`() throws {
    let expected: [(RefusalCause, SessionResult)] = [
      (.address, .refusedAddress), (.limit(status: 429), .limited), (.upstream, .upstream), (.fault, .error),
    ]
    for (cause, result) in expected {
      let rig = try Rig.passingTCP()
      let client = try TCPClient(rig)
      let session = try #require(client.running), connection = try #require(client.session.tcp)
      session.refuse(cause)
      #expect(connection.result == result && !session.isUnderWay && client.running == nil)
      #expect(client.heard().isEmpty && client.session.isClosed)
    }
  }

  @Test func `ends once, and keeps nothing that it was served by`() throws {
    let rig = try Rig.passingTCP()
    let client = try TCPClient(rig)
    let session = try #require(client.running), connection = try #require(client.session.tcp)
    #expect(session.handler != nil && session.isUnderWay && !session.isPassing)
    session.end(.timeout)
    session.end(.error)
    #expect(connection.result == .timeout && session.handler == nil && session.stream == nil)
  }

  @Test func `has no path, no Host and no field of a request`() throws {
    let rig = try Rig.passingTCP()
    let client = try TCPClient(rig)
    let session = try #require(client.running)
    #expect(session.path.isEmpty && session.host.isEmpty && session.forwardedFor.isEmpty)
    var text = ByteBuffer()
    session.append(.requestField(Array("host".utf8)), to: &text)
    session.append(.simple(.request_uri), to: &text)
    #expect(text.count == 0)
  }

  @Test func `is refused by a variable that could not be computed`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let heavy = String(repeating: "a", count: 60) + "c"
    let rig = try Rig.stream(
      #"""
      map $heavy $denied { "~^(a+)+$" 0; default 0; }
      server { listen 127.0.0.1:1; set $heavy \#(heavy); set $x $denied; return in; }
      """#, scene)
    let client = try TCPClient(rig)
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(rig.accessLines(scene) == ["500"])
  }
}
