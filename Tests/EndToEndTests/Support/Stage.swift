import Synchronization
import TestSupport
import Testing

/// Gives each test of a suite a scene, shows its logs where it fails, and bounds how many run at once.
///
/// A test runs once for each version of HTTP, each time with a scene of its own, whose clients speak that version.
struct Stage: TestTrait, SuiteTrait, TestScoping {
  /// How many of the places a test takes: all of them for one that measures.
  let weight: Int
  var speeches: [Speech] = [.http1]
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let isOfHTTP1 = test.traits.contains { $0 is OfHTTP1 }
    let places = test.traits.contains { $0 is LastsMinutes } ? Places.ofMinutes : Places.shared
    for speech in isOfHTTP1 ? [.http1] : speeches {
      await places.take(weight)
      do { try await run(speech, for: test, testCase: testCase, performing: function) } catch {
        await places.giveBack(weight)
        throw error
      }
      await places.giveBack(weight)
    }
  }

  /// Runs the test once. An error that it throws is an issue of this run, and leaves the next one to run.
  private func run(
    _ speech: Speech, for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let scene = try Scene(speech)
    defer { scene.end() }
    let shown = Mutex(false)
    let isOneOfTwo = speeches.count > 1
    let showing = IssueHandlingTrait.compactMapIssues { issue in
      var issue = issue
      if isOneOfTwo { issue.comments.append("the client spoke \(speech.rawValue)") }
      if !shown.withLock({ shown in
        defer { shown = true }; return shown
      }) {
        issue.comments.append(Comment(rawValue: scene.report))
      }
      return issue
    }
    try await showing.provideScope(for: test, testCase: testCase) {
      do { try await Scene.$running.withValue(scene) { try await function() } } catch is ExpectationFailedError {
        // Is recorded.
      } catch {
        Issue.record(error)
      }
      if speech != .http1, !scene.hasSpoken {
        Issue.record("no client spoke \(speech.rawValue): this run tests nothing new, so mark the test .ofHTTP1")
      }
    }
  }
}

/// A test of a suite that runs over both versions of HTTP, which is itself about the bytes of HTTP/1.
struct OfHTTP1: TestTrait {}

extension Trait where Self == OfHTTP1 {
  static var ofHTTP1: OfHTTP1 { OfHTTP1() }
}

/// A test that boots a machine or builds an image. It has places of its own, so that it begins at once and the last one does
/// not begin when all others are over.
struct LastsMinutes: TestTrait {}

extension Trait where Self == LastsMinutes {
  static var lastsMinutes: LastsMinutes { LastsMinutes() }
}

extension Trait where Self == Stage {
  static var staged: Stage { Stage(weight: 1) }
  /// Each test runs over HTTP/1.1, and then over HTTP/2: for what reads or writes a client's requests and responses, and for
  /// who may send them. What is about an upstream's TLS, or about a certificate before there is a request, needs one of them.
  static var stagedOverBoth: Stage { Stage(weight: 1, speeches: Speech.allCases) }
  /// Nothing else of this suite runs meanwhile.
  static var stagedAlone: Stage { Stage(weight: Places.count) }
}

extension Scene {
  @TaskLocal fileprivate static var running: Scene?

  /// The scene of the test that runs.
  static func ofTest() throws -> Scene { try #require(running, "the suite has no .staged trait") }
}

/// The places for tests that run at the same time, handed out in order. A test that takes them all comes last: to wait for those
/// that run, while no other begins, would leave the processors idle before each such test.
private actor Places {
  /// More than processors: many tests wait for a deadline or an interval, and take no processor meanwhile. Under a
  /// sanitizer each test has enough to do.
  static let count = Sanitizer.isUsed ? 4 : 6
  static let shared = Places(count)
  static let ofMinutes = Places(2)
  private let whole: Int
  private var free: Int
  private var waiting: [CheckedContinuation<Void, Never>] = []
  private var waitingForAll: [CheckedContinuation<Void, Never>] = []

  private init(_ count: Int) {
    whole = count
    free = count
  }

  /// `weight`: 1, or all of them.
  func take(_ weight: Int) async {
    if waiting.isEmpty && free >= weight {
      free -= weight
      return
    }
    await withCheckedContinuation { continuation in
      if weight == 1 { waiting.append(continuation) } else { waitingForAll.append(continuation) }
    }
  }

  func giveBack(_ weight: Int) {
    free += weight
    while free > 0, !waiting.isEmpty {
      free -= 1
      waiting.removeFirst().resume()
    }
    guard free == whole, !waitingForAll.isEmpty else { return }
    free = 0
    waitingForAll.removeFirst().resume()
  }
}
