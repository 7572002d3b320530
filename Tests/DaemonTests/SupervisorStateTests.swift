import Testing

@testable import Daemon

@Suite struct SupervisorStateTests {
  private typealias State = SupervisorState<Int>

  private func serving() -> State {
    var state = State()
    #expect(state.started() == .announce)
    return state
  }

  @Test func `a reload that is asked for while one is under way follows it, once`() {
    var state = serving()
    #expect(state.reloadAsked(.configuration) == .reload(.configuration))
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.prepared(2) == .swap(2))
    #expect(state.reloadEnded() == .reload(.configuration))
    #expect(state.reloadEnded() == .none)
    #expect(state.phase == .serving)
  }

  @Test func `a refused reload leaves the daemon serving`() {
    var state = serving()
    #expect(state.reloadAsked(.configuration) == .reload(.configuration))
    #expect(state.reloadEnded() == .none)
    #expect(state.phase == .serving)
    #expect(state.reloadAsked(.configuration) == .reload(.configuration))
  }

  @Test func `a configuration that comes while draining is not taken, and files are loaded in its place`() {
    for isRefused in [false, true] {
      var state = serving()
      #expect(state.reloadAsked(.configuration) == .reload(.configuration))
      #expect(state.drainAsked() == .drain)
      #expect((isRefused ? state.reloadEnded() : state.prepared(2)) == .reload(.files))
      #expect(state.prepared(3) == .swap(3))
      #expect(state.reloadEnded() == .none)
      #expect(state.phase == .draining(.nothing))
    }
  }

  @Test func `files that change while draining are loaded, and no configuration is`() {
    var state = serving()
    #expect(state.drainAsked() == .drain)
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.reloadAsked(.files) == .reload(.files))
    #expect(state.reloadAsked(.files) == .none)
    #expect(state.reloadAsked(.retry) == .none)
    #expect(state.prepared(2) == .swap(2))
    #expect(state.reloadEnded() == .reload(.files))
    #expect(state.reloadEnded() == .none)
    #expect(state.phase == .draining(.nothing))
    #expect(state.stopAsked() == .stop)
    #expect(state.reloadAsked(.files) == .none)
  }

  @Test func `QUIT drains once, and TERM cuts the drain short`() {
    var state = serving()
    #expect(state.drainAsked() == .drain)
    #expect(state.drainAsked() == .none)
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.stopAsked() == .stop)
    #expect(state.stopAsked() == .none)
    #expect(state.drainAsked() == .none)
  }

  @Test func `before anything serves QUIT stops`() {
    var state = State()
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.drainAsked() == .stop)
    #expect(state.started() == .none)
  }

  @Test func `a retry of broken files becomes part of whatever is asked for meanwhile`() {
    typealias Reload = SupervisorState<Int>.Reload
    #expect(Reload.retry.joined(nil) == .retry && Reload.retry.joined(.retry) == .retry)
    #expect(Reload.retry.joined(.files) == .files && Reload.files.joined(.retry) == .files)
    #expect(
      Reload.retry.joined(.configuration) == .configuration && Reload.files.joined(.configuration) == .configuration)
  }

  @Test func `a file that changes while one reload is under way is taken up after it`() {
    var state = serving()
    #expect(state.reloadAsked(.files) == .reload(.files))
    #expect(state.reloadAsked(.files) == .none)
    #expect(state.reloadEnded() == .reload(.files))
    #expect(state.reloadAsked(.files) == .none)
    #expect(state.reloadAsked(.configuration) == .none)
    #expect(state.reloadAsked(.files) == .none)
    #expect(state.reloadEnded() == .reload(.configuration))
    #expect(state.reloadEnded() == .none)
  }

  @Test func `one new binary starts at a time, and the process drains only once that one serves`() {
    var state = State()
    #expect(state.replacementAsked() == .none)
    #expect(state.started() == .announce)
    #expect(state.replacementAsked() == .replace)
    #expect(state.replacementAsked() == .none)
    #expect(state.reloadAsked(.configuration) == .reload(.configuration))
    #expect(state.reloadEnded() == .none)
    #expect(state.replacementFailed() == .none)
    #expect(state.phase == .serving)
    #expect(state.replacementAsked() == .replace)
    #expect(state.replacementServes() == .drain)
    #expect(state.phase == .draining(.nothing))
    #expect(state.replacementAsked() == .none)
  }

  @Test func `a process that stops doesn't come back for a new binary`() {
    var state = serving()
    #expect(state.replacementAsked() == .replace)
    #expect(state.stopAsked() == .stop)
    #expect(state.replacementServes() == .none)
    #expect(state.phase == .stopping)
  }
}
