import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `The state of passwords in a process that replaces another` {
  @Test func `the new process takes the directory once the former one has ended`() async throws {
    let scene = try Scene.ofTest()
    let apache = try await ApacheUpstream.start(scene, accounts: [.init("al", "geheim-über dem:Berg")])
    let proxy = try await PasswordProxy(
      scene,
      """
      proxy_auth digest; proxy_auth_persistence permanent; proxy_auth_state state;
      location / { proxy_pass http://127.0.0.1:\(apache.port); }
      """)
    #expect(try await proxy.ask("/digest/page").status == 200)
    try await until("the state to be written") { !scene.text("state/challenges").isEmpty }
    let former = proxy.daemon.process.identifier
    proxy.daemon.signal(SIGUSR2)
    let fresh = try await waiting(for: "the pid file of the new process") {
      pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines)).flatMap {
        $0 == former ? nil : $0
      }
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    _ = try await proxy.daemon.process.ended()
    try await until("the directory to be taken") { scene.text("error.log").contains("challenges are kept in") }
    // What the former process knew answers at once, and what this one learns is for the next.
    #expect(try await proxy.ask("/digest/page").status == 200)
    #expect(try await apache.seen(3).map { $0[0] } == ["401", "200", "200"])
    kill(fresh, SIGKILL)
    try await until("the new process to end") { kill(fresh, 0) != 0 }
    try await scene.succeed("rm", scene.path("sallyport.pid"))
    _ = try await Sallyport.start(scene, scene.text("sallyport.conf"))
    #expect(try await proxy.ask("/digest/page").status == 200)
    #expect(try await apache.seen(4).map { $0[0] }.last == "200")
    #expect(!scene.text("error.log").contains("stale"))
  }
}
