@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The entry of requests` {
  @Test func `is asked as long as any feature has something to respond to`() {
    let state = EntryState()
    #expect(!state.isActive)
    state.begin()
    state.begin()
    state.end()
    #expect(state.isActive)
    state.end()
    #expect(!state.isActive)
  }

  @Test func `asks the parts that features name, and finds their objects in the process`() {
    let shared = SharedState(features: Features.all)
    #expect(Features.all.entryParts.contains { $0 == ChallengeTokens.self })
    #expect(shared[ChallengeTokens.self] === shared[ChallengeTokens.self])
    #expect(!shared.entry.isActive)
  }
}
