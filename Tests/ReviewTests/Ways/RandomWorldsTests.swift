import ConfigurationSupport
import Foundation
import TestSupport
import Testing

/// Random configurations, and random clients who send random requests to the objects that would serve them. Whoever gets to
/// a content does so by a way that the search has found and that admits him; and whom a way admits for certain, nobody refuses.
///
/// `SALLYPORT_WORLDS` says how many configurations, each with 100 requests; without it they are few. `SALLYPORT_WORLD` is the
/// seed of the first one. A million requests, in a release build:
///
///     swift build -c release --build-tests -Xswiftc -enable-testing
///     SALLYPORT_WORLDS=10000 swift test -c release --skip-build --filter 'Random worlds'
@Suite struct `Random worlds` {
  @Test func `what somebody gets is on a way that admits him, and what a way admits is got`() throws {
    let count = ProcessInfo.processInfo.environment["SALLYPORT_WORLDS"].flatMap(Int.init) ?? 60
    let first = ProcessInfo.processInfo.environment["SALLYPORT_WORLD"].flatMap(UInt64.init) ?? 1
    try withScene { scene in
      try Self.prepare(scene)
      var worlds = RandomWorlds()
      for seed in first..<first + UInt64(count) where worlds.faults.count < 5 { worlds.play(seed, in: scene.path("")) }
      #expect(worlds.faults.isEmpty, "\(worlds.faults.joined(separator: "\n\n"))")
      guard count >= 30 else { return }
      // A grammar of which most texts are refused shows nothing, and neither does a search that never decides.
      #expect(worlds.invalid < worlds.worlds, "\(worlds.summary) \(worlds.lastRefusal)")
      #expect(worlds.reached * 20 > worlds.attempts, "\(worlds.summary)")
      #expect(worlds.unknown * 2 < worlds.attempts, "\(worlds.summary)")
      // A model that always says "unknown" contradicts nothing.
      #expect(worlds.certain > 0 && worlds.excluded * 4 > worlds.certain, "\(worlds.summary)")
      #expect(worlds.admitted * 4 > worlds.reached, "\(worlds.summary)")
      #expect(worlds.compared * 4 > worlds.reached, "\(worlds.summary)")
      if count > 1000 { print(worlds.summary) }
    }
  }

  /// In 33372 the rules of an error page took a front for its client.
  @Test(arguments: [735, 1187, 20_346, 21_479, 31_280, 33_372] as [UInt64])
  func `a world that has differed from the model differs no more`(seed: UInt64) throws {
    try withScene { scene in
      try Self.prepare(scene)
      var worlds = RandomWorlds()
      worlds.play(seed, in: scene.path(""))
      #expect(worlds.worlds == 1 && worlds.faults.isEmpty, "\(worlds.faults.joined(separator: "\n\n"))")
    }
  }

  private static func prepare(_ scene: Scene) throws {
    for name in ["one", "two"] { try scene.anchors(name, TestAuthority(name)) }
    _ = try scene.identity("server", TestAuthority("three").server(names: ["a.test"]))
    try scene.write("users", text: "alice:{PLAIN}x\n")
  }
}
