import Testing

@testable import Patterns

@Suite struct `The text of a pattern` {
  private let separators: Set<UInt8> = [0x2C, 0x2F]

  @Test(
    arguments: [
      ("^CN=admin$", true, true), ("CN=admin", false, false), ("^CN=admin", true, false), ("CN=admin$", false, true),
      ("^CN=admin,O=Example$", true, true), ("(^|,)CN=admin(,|$)", true, true), (",CN=admin,", true, true),
      ("/CN=(?<cn>[^/]+)", true, true), ("/CN=(?<cn>[^/,]+)", true, true), ("CN=(?<cn>[^,/]+)", false, true),
      ("^(.*,)?CN=admin(,.*)?$", true, true), ("^.*CN=admin$", false, true), ("^.*,CN=admin", true, false),
      ("(?:^|,)CN=a(?=,|$)", true, true), ("^CN=a|CN=b$", false, false), ("^(CN=a|CN=b)$", true, true),
      (#"\ACN=a\z"#, true, true), ("[,/]CN=a[,/]", true, true), ("[,/]?CN=a$", false, true),
      ("(?i)^cn=a$", true, true), (#"^CN=a\$"#, true, false), ("^CN=[a-z]{2,3}", true, false),
      ("^(,)?$", true, true), ("(,)?CN=a$", false, true), ("CN=a(,|$)?", false, false), ("", false, false),
      (".*", false, false),
      ("^", true, false), ("[", false, false), ("(", false, false), ("(?<", false, false), (#"\"#, false, false),
      ("{", false, false),
    ] as [(String, Bool, Bool)]) func `begins or ends where the text does, or at a separator`(
      pattern: String, begins: Bool, ends: Bool
    )
  {
    let text = PatternText(pattern)
    #expect(text.beginsAtBound(separators) == begins && text.endsAtBound(separators) == ends)
  }

  @Test func `has its groups by number and by name`() {
    let text = PatternText(#"^/(a(?:b)(?<inner>[^)]+))/(?'other'x\))/(?i)(y)$"#)
    func opens(_ group: PatternText.Group?) -> Bool? { group?.content.isOpen(to: ".") }
    #expect(opens(text.group(1)) == true && opens(text.group(2)) == true && opens(text.group(3)) == false)
    #expect(opens(text.group(4)) == false && text.group(5) == nil && text.group(0) == nil)
    #expect(opens(text.group(named: "inner")) == true && opens(text.group(named: "other")) == false)
    #expect(text.group(named: "y") == nil)
  }

  @Test(
    arguments: [
      (".+", true), ("[a-z]+", false), ("[^/]+", true), ("[^.]+", false), (#"\w+"#, false), (#"\S+"#, true),
      (#"a\.b"#, false), ("[a-z.]+", true), ("(x|.)", true), ("", false),
    ] as [(String, Bool)]) func `can match a dot by something else than a dot, or can't`(pattern: String, isOpen: Bool)
  {
    #expect(PatternText(pattern).isOpen(to: ".") == isOpen)
  }

  @Test(
    arguments: [
      ("^(/.*)$", 1, true, true), ("^(/.*)?$", 1, false, true), ("^(/a|b)", 1, true, false),
      ("^((/.*))$", 2, true, true), ("(/x)|y", 1, false, true), ("(?!(/x))", 1, false, true),
      ("^/(.*)$", 1, true, false), ("(/?x)", 1, true, false), ("((/x)?y)", 2, false, true),
    ] as [(String, Int, Bool, Bool)]) func `has a group in each match, and begins with a character, or doesn't`(
      pattern: String, number: Int, isInEachMatch: Bool, beginsWithSlash: Bool
    ) throws
  {
    let group = try #require(PatternText(pattern).group(number))
    #expect(group.isInEachMatch == isInEachMatch)
    #expect(group.content.begins(with: UInt8(ascii: "/")) == beginsWithSlash)
  }

  @Test(
    arguments: [
      ("a:b", 1, true), ("a:b:", 2, true), ("a:?b", 0, true), ("a(:b)", 0, true), ("a:|b", 0, true), ("a.b", 0, true),
      ("a[^;]b", 0, true), ("ab", 0, false),
    ] as [(String, Int, Bool)]) func `needs so many of a character, may have it, or can't`(
      pattern: String, count: Int, mayHave: Bool
    )
  {
    let text = PatternText(pattern), colon = UInt8(ascii: ":")
    #expect(text.leastCount(of: colon) == count && text.mayHave(colon) == mayHave)
  }

  @Test(
    arguments: [
      (#"\.(css|js)$"#, true), (#"\.(?:css|js)(\.gz)?$"#, true), (#"\.jpe?g$"#, true), (#"\.mp[34]$"#, true),
      (#"/(favicon\.ico|robots\.txt)$"#, true), (#"^/(favicon\.ico|robots\.txt)$"#, true), ("^/(css|js)/", true),
      (#"\.js$|^/x/"#, true), (#"(\.css|\.js)$"#, true), (#"\.js$|^/x"#, false), (#"\.[a-z]+$"#, false),
      (#"\.(.+)$"#, false), ("^/css/?", false), ("^/a.*/", false), (".*", false), ("css$", false),
      (#"\.?js$"#, false), (#"\.php(/.*)?$"#, false), (#"\.css"#, false), ("^/", false), ("", false),
    ] as [(String, Bool)]) func `tells by a few names which paths it matches, or doesn't`(
      pattern: String, tellsNames: Bool
    )
  {
    #expect(PatternText(pattern).tellsNames == tellsNames)
  }

  @Test func `has a letter or a digit that a text must have, or none`() {
    for pattern in ["CN=", "^(?<cn>a)$", "1"] { #expect(PatternText(pattern).hasLiteral, "\(pattern)") }
    for pattern in [".*", "^(?<cn>.+)$", "[a-z]+", #"\d+"#, ""] {
      #expect(!PatternText(pattern).hasLiteral, "\(pattern)")
    }
  }
}
