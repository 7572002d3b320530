import Crypto
import TestSupport
import Testing

@testable import UpstreamAuth

/// What the fuzzers start from and what they once found, read again by every test run.
@Suite struct `Fuzz inputs of challenges` {
  @Test func `lines once fuzzed are bounded, and their answers are one line`() {
    let inputs = FuzzInput.all(of: "FuzzChallenge")
    #expect(inputs.count > 3)
    for input in inputs {
      let lines = input.text.split(separator: 0x0A).map { Array($0) }
      for offer in Offer.all(in: lines) {
        guard case .digest(let challenge) = offer else { continue }
        let line = answer(challenge, user("u", "p"), target: "/", body: "", clientNonce: "c")
        #expect(line?.utf8.contains { $0 < 0x20 } == false)
      }
      for line in lines { _ = AuthenticationInfo.nextNonce(line) }
    }
  }

  @Test func `messages once fuzzed are none, or can be answered`() {
    let inputs = FuzzInput.all(of: "FuzzNTLM").map(\.bytes)
    let challenges = inputs.compactMap { NTLMChallenge($0) }
    #expect(inputs.count > 3 && challenges.count > 1 && challenges.count < inputs.count)
    let circumstances = NTLMAnswer.Circumstances(
      clientChallenge: [UInt8](repeating: 1, count: 8), time: [UInt8](repeating: 0, count: 8), target: "", endPoint: nil
    )
    for challenge in challenges { #expect(NTLMAnswer.authenticate(user("u", "p"), challenge, circumstances) != nil) }
  }
}
