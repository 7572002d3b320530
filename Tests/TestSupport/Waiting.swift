import Foundation

/// A deadline that passed before the event came.
package struct TimedOut: Error, CustomStringConvertible {
  package let description: String
}

/// Waits for an event: asks until there is an answer, at most so long, and in any case 20 times: while the many tests in
/// process keep the few threads of Swift's pool busy, a test may sleep for a minute between two questions, and each question
/// may be a step of what it waits for.
///
/// A question may cost a process. Between two of them lies a tenth of the time that has passed, and at most 50 ms.
package func waiting<Answer>(
  for what: String, within bound: Duration = .seconds(30), _ ask: () async throws -> Answer?
) async throws -> Answer {
  let start = ContinuousClock.now
  var questions = 0
  while true {
    questions += 1
    let passed = ContinuousClock.now - start, isLast = passed >= bound && questions >= 20
    if let answer = try await ask() { return answer }
    guard !isLast else { throw TimedOut(description: "waited \(bound) in vain for \(what)") }
    try await Task.sleep(for: min(max(passed / 10, .milliseconds(5)), .milliseconds(50)))
  }
}

/// Waits until something is so.
package func until(_ what: String, within bound: Duration = .seconds(30), _ isSo: () async throws -> Bool) async throws
{
  try await waiting(for: what, within: bound) { try await isSo() ? () : nil }
}

/// Runs blocking work on a thread of its own, so that the few threads of Swift's pool stay free.
package func offPool<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Swift.Result { try work() }) }
  }
}
