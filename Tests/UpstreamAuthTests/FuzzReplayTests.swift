import Crypto
import Foundation
import Testing

@testable import UpstreamAuth

/// What the fuzzers start from and what they once found, read again by every test run.
@Suite struct `Fuzz inputs of challenges` {
  private static func inputs(of target: String) -> [[UInt8]] {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().path
    return ["Corpus", "Regressions"].flatMap { folder -> [[UInt8]] in
      let path = "\(tests)/Fuzz/\(target)/\(folder)"
      let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
      return names.sorted().compactMap { FileManager.default.contents(atPath: "\(path)/\($0)").map { Array($0) } }
    }
  }

  @Test func `lines once fuzzed are bounded, and their answers are one line`() {
    let inputs = Self.inputs(of: "FuzzChallenge")
    #expect(inputs.count > 3)
    for input in inputs {
      let lines = input.dropFirst().split(separator: 0x0A).map { Array($0) }
      for offer in Offer.all(in: lines) {
        guard case .digest(let challenge) = offer else { continue }
        let line = answer(challenge, user("u", "p"), target: "/", body: "", clientNonce: "c")
        #expect(line?.utf8.contains { $0 < 0x20 } == false)
      }
      for line in lines { _ = AuthenticationInfo.nextNonce(line) }
    }
  }

  @Test func `messages once fuzzed are none, or can be answered`() {
    let inputs = Self.inputs(of: "FuzzNTLM")
    let challenges = inputs.compactMap { NTLMChallenge($0) }
    #expect(inputs.count > 3 && challenges.count > 1 && challenges.count < inputs.count)
    let circumstances = NTLMAnswer.Circumstances(
      clientChallenge: [UInt8](repeating: 1, count: 8), time: [UInt8](repeating: 0, count: 8), target: "", endPoint: nil
    )
    for challenge in challenges { #expect(NTLMAnswer.authenticate(user("u", "p"), challenge, circumstances) != nil) }
  }
}
