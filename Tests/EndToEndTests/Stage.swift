import Synchronization
import TestSupport
import Testing

/// Gives each test of a suite a scene, shows its logs where it fails, and bounds how many run at once.
struct Stage: TestTrait, SuiteTrait, TestScoping {
  /// How many of the places a test takes: all of them for one that measures.
  let weight: Int
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    await Places.shared.take(weight)
    do {
      let scene = try Scene()
      defer { scene.end() }
      let shown = Mutex(false)
      let showing = IssueHandlingTrait.compactMapIssues { issue in
        var issue = issue
        if !shown.withLock({ shown in
          defer { shown = true }; return shown
        }) {
          issue.comments.append(Comment(rawValue: scene.report))
        }
        return issue
      }
      try await showing.provideScope(for: test, testCase: testCase) {
        try await Scene.$running.withValue(scene) { try await function() }
      }
    } catch {
      await Places.shared.giveBack(weight)
      throw error
    }
    await Places.shared.giveBack(weight)
  }
}

extension Trait where Self == Stage {
  static var staged: Stage { Stage(weight: 1) }
  /// Nothing else of this suite runs meanwhile.
  static var stagedAlone: Stage { Stage(weight: Places.count) }
}

extension Scene {
  @TaskLocal fileprivate static var running: Scene?

  /// The scene of the test that runs.
  static func ofTest() throws -> Scene { try #require(running, "the suite has no .staged trait") }
}

/// The places for tests that run at the same time, handed out in order.
private actor Places {
  static let count = 4
  static let shared = Places()
  private var free = Places.count
  private var waiting: [(weight: Int, continuation: CheckedContinuation<Void, Never>)] = []

  func take(_ weight: Int) async {
    if waiting.isEmpty && free >= weight {
      free -= weight
      return
    }
    await withCheckedContinuation { waiting.append((weight, $0)) }
  }

  func giveBack(_ weight: Int) {
    free += weight
    while let next = waiting.first, next.weight <= free {
      free -= next.weight
      waiting.removeFirst()
      next.continuation.resume()
    }
  }
}
