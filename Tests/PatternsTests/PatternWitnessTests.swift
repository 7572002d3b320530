import Testing

@testable import Patterns

@Suite struct `A witness of an expression` {
  @Test(arguments: [
    #"\.php$"#, "^/admin(/|$)", "^/(api|v1)/users/[0-9]+$", #"^(?<name>[a-z]{3,8})\.example\.com$"#, "^/a*b?c+$",
    "(?:jpg|png)$", "[^/]+$", "^/x/../y", #"^\d{4}-\d\d$"#, "",
  ])
  func `matches it`(pattern: String) throws {
    let expression = try RegularExpression(pattern)
    let text = try #require(expression.witness(), "\(pattern)")
    var captures = Captures()
    let outcome = text.withUnsafeBytes {
      expression.match($0, scratch: RegularExpression.Scratch(), into: &captures)
    }
    #expect(outcome == .match, "\(pattern): \(String(decoding: text, as: UTF8.self))")
  }

  @Test func `is another one where the caller can't use the first`() throws {
    let expression = try RegularExpression("admin|/root")
    func witness(_ isFit: ([UInt8]) -> Bool) -> String? {
      expression.witness(isFit).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(witness { _ in true } == "admin" && witness { $0.first == 0x2F } == "/root")
    #expect(witness { $0.isEmpty } == nil)
  }

  @Test(arguments: ["(?=a)b", "(?!a)", #"(a)\1"#, "(", "a{999}"])
  func `is none where this reader gives up, whether or not there is one`(pattern: String) throws {
    #expect((try? RegularExpression(pattern))?.witness() == nil)
  }
}
