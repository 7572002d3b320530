@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The phases of an exchange` {
  private static let counts = PhaseCounts(serverRewrite: 1, rewrite: 1, preaccess: 1, access: 2, precontent: 1)

  /// Returns the actions of the cursor when the steps give these results, one after another.
  private func actions(
    _ outcomes: [StepOutcome], _ satisfy: Satisfy = .all, _ counts: PhaseCounts = counts
  ) -> [PhaseAction] {
    var cursor = PhaseCursor(), outcomes = outcomes[...]
    var actions = [cursor.next(counts, satisfy)]
    while let last = actions.last {
      switch last {
      case .run:
        guard let outcome = outcomes.popFirst() else { return actions }
        actions.append(cursor.take(outcome, counts, satisfy))
      case .findLocation: actions.append(cursor.enterLocation(counts, satisfy))
      case .startContent, .fail, .stop: return actions
      }
    }
    return actions
  }

  @Test func `are nginx's, in nginx's order`() {
    #expect(
      actions(Array(repeating: .next, count: 6)) == [
        .run(.serverRewrite, step: 0), .findLocation, .run(.rewrite, step: 0), .run(.preaccess, step: 0),
        .run(.access, step: 0), .run(.access, step: 1), .run(.precontent, step: 0), .startContent,
      ])
    #expect(actions([], .all, PhaseCounts()) == [.findLocation, .startContent])
  }

  @Test func `with satisfy all every step must let the client in`() {
    let counts = PhaseCounts(access: 2)
    #expect(actions([.granted, .granted], .all, counts).last == .startContent)
    #expect(actions([.granted, .denied(ErrorResponse(401))], .all, counts).last == .fail(ErrorResponse(401)))
    #expect(
      actions([.denied(ErrorResponse(403))], .all, counts) == [
        .findLocation, .run(.access, step: 0), .fail(ErrorResponse(403)),
      ])
  }

  @Test func `with satisfy any the first grant is enough, and without one the last denial is the answer`() {
    let counts = PhaseCounts(access: 2, precontent: 1)
    #expect(
      actions([.granted, .next], .any, counts) == [
        .findLocation, .run(.access, step: 0), .run(.precontent, step: 0), .startContent,
      ])
    #expect(actions([.denied(ErrorResponse(403)), .granted, .next], .any, counts).last == .startContent)
    #expect(
      actions([.denied(ErrorResponse(403)), .denied(ErrorResponse(401))], .any, counts).last
        == .fail(ErrorResponse(401)))
    // A 401 (a challenge) takes precedence over a 403.
    #expect(
      actions([.denied(ErrorResponse(401)), .denied(ErrorResponse(403))], .any, counts).last
        == .fail(ErrorResponse(401)))
    // A step with the result `next` neither grants nor denies access.
    #expect(actions([.denied(ErrorResponse(403)), .next], .any, counts).last == .fail(ErrorResponse(403)))
    #expect(actions([.next, .next, .next], .any, counts).last == .startContent)
  }

  @Test func `a step that answers, fails or waits stops them`() {
    for (outcome, action) in [
      (StepOutcome.responded, PhaseAction.stop), (.wait, .stop), (.fail(ErrorResponse(500)), .fail(ErrorResponse(500))),
    ] {
      #expect(actions([.next, .next, outcome]).last == action)
    }
  }

  @Test func `what waits goes on behind the step that waited`() {
    let counts = PhaseCounts(access: 2)
    var cursor = PhaseCursor()
    _ = cursor.next(counts, .all)
    #expect(cursor.enterLocation(counts, .all) == .run(.access, step: 0))
    #expect(cursor.take(.wait, counts, .all) == .stop)
    #expect(cursor.take(.granted, counts, .all) == .run(.access, step: 1))
  }

  @Test func `a denial is of the location that denied, not of its error page`() {
    var cursor = PhaseCursor()
    _ = cursor.next(PhaseCounts(), .any)
    _ = cursor.enterLocation(PhaseCounts(access: 1), .any)
    #expect(cursor.take(.denied(ErrorResponse(401)), PhaseCounts(access: 1), .any) == .fail(ErrorResponse(401)))
    #expect(cursor.enterLocation(PhaseCounts(), .any) == .startContent)
  }

  @Test func `a changed path finds its location anew, ten times`() {
    let counts = PhaseCounts(rewrite: 2)
    let changes = actions(Array(repeating: .uriChanged, count: 20), .all, counts)
    #expect(changes.prefix(3) == [.findLocation, .run(.rewrite, step: 0), .findLocation])
    #expect(changes.last == .fail(ErrorResponse(500)))
    #expect(changes.count { $0 == .findLocation } == 11)
  }

  @Test func `rewrite, break and if lead on, out of the phase, and past a block`() {
    let counts = PhaseCounts(rewrite: 4, access: 1)
    #expect(
      actions([.uriChanges, .skip(1), .next], .all, counts) == [
        .findLocation, .run(.rewrite, step: 0), .run(.rewrite, step: 1), .run(.rewrite, step: 3), .findLocation,
        .run(.rewrite, step: 0),
      ])
    // `break` keeps the location, also after a `rewrite`.
    #expect(actions([.uriChanges, .endPhase], .all, counts).last == .run(.access, step: 0))
    #expect(actions([.skip(99)], .all, counts).last == .run(.access, step: 0))
  }

  @Test func `what the server block rewrites is no change of the location`() {
    let counts = PhaseCounts(serverRewrite: 2, rewrite: 1, access: 1)
    for outcome in [StepOutcome.uriChanged, .endPhase] {
      #expect(actions([outcome, .next], .all, counts).last == .run(.access, step: 0))
    }
  }

  @Test func `internal redirects count as changes of the path, and the eleventh is refused`() {
    var cursor = PhaseCursor()
    for _ in 0..<5 { #expect(cursor.restart() && cursor.countRedirect()) }
    #expect(!cursor.isExhausted)
    #expect(!cursor.restart() && cursor.isExhausted)
  }
}
