import Testing
@testable import TLS

@Suite struct `The level that a chain must have` {
  @Test func `is the one that its ciphers ask for, however many others were asked before`() {
    for _ in 0..<2 {
      // More strings than are remembered.
      for number in 0..<100 {
        let level = Int32(number % 6)
        #expect(
          ContextBasics.chainLevel(ciphers: "DEFAULT:!NONE\(number):@SECLEVEL=\(level)", [], standard: 2) == level)
      }
      #expect(ContextBasics.chainLevel(ciphers: "DEFAULT", [], standard: 2) == 2)
      #expect(ContextBasics.chainLevel(ciphers: "DEFAULT", [], standard: 0) == 1)
    }
  }
}
