import Bytes
import Testing

@testable import JSON

@Suite struct `Members of a JSON object` {
  /// Values by name, `nil` for absent; nil altogether where it is no such object.
  private func read(_ text: [UInt8], _ names: [String]) -> [String?]? {
    var scanner = MemberScanner(names: names.map { Array($0.utf8) }, capacity: text.count)
    text.withUnsafeBytes { scanner.take($0) }
    guard scanner.isWhole, scanner.firstStray == text.count else { return nil }
    var found: [String?] = []
    for value in scanner.values {
      switch value {
      case .absent: found.append(nil)
      case .string(let range): found.append("s:" + scanner.kept[range].text)
      case .literal(let range): found.append("l:" + scanner.kept[range].text)
      case .unusable(let reason): found.append("\(reason)")
      }
    }
    return found
  }

  private func read(_ text: String, _ names: String...) -> [String?]? { read(Array(text.utf8), names) }

  @Test func `scalars come as they are meant or as they stand`() {
    #expect(
      read(#" {"a":"x","b": -1.50e+3 ,"c":true,"d":null} "#, "a", "b", "c", "d", "e")
        == ["s:x", "l:-1.50e+3", "l:true", "l:null", nil])
    #expect(read(#"{"n":0}"#, "n") == ["l:0"])
    #expect(read(#"{"n":12,"m":""}"#, "n", "m") == ["l:12", "s:"])
    #expect(read("{}", "a") == [nil])
  }

  @Test func `escapes are undone in names and values`() {
    #expect(
      read(#"{"\u006d\u0061c":"a\/b\"\\\b\f\n\r\té\u00e9\ud83d\uDE00\u0000"}"#, "mac")
        == ["s:a/b\"\\\u{8}\u{c}\n\r\téé😀\0"])
  }

  @Test func `members of inner objects are others'`() {
    #expect(read(#"{"o":{"a":1,"b":[{"a":[2]},[],{}]},"a":"y"}"#, "a") == ["s:y"])
    #expect(read(#"{"a":{"a":1}}"#, "a") == ["nested"])
    #expect(read(#"{"a":[1]}"#, "a") == ["nested"])
  }

  @Test func `a member that is there twice is told, whatever its values`() {
    for text in [#"{"a":1,"a":1}"#, #"{"a":[],"a":1}"#, #"{"a":"","\u0061":{}}"#] {
      #expect(read(text, "a") == ["doubled"], "\(text)")
    }
    #expect(read(#"{"x":1,"x":2,"a":3}"#, "a") == ["l:3"])
  }

  @Test(arguments: [
    "", " ", "[]", "1", "\"a\"", "{", "}", "{]", "{,}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a":1 "b":2}"#,
    #"{"a":1}}"#, #"{"a":1}x"#, #"{"a":1}{}"#, #"{a:1}"#, #"{'a':1}"#, #"{"a":01}"#, #"{"a":+1}"#, #"{"a":.5}"#,
    #"{"a":1.}"#, #"{"a":1e}"#, #"{"a":-}"#, #"{"a":1.e3}"#, #"{"a":0x1}"#, #"{"a":tru}"#, #"{"a":True}"#,
    #"{"a":truex}"#,
    #"{"a":nul"#, #"{"a":"x}"#, "{\"a\":\"\t\"}", #"{"a":"\x"}"#, #"{"a":"\u12g4"}"#, #"{"a":"\u12"}"#,
    #"{"a":"\ud800"}"#,
    #"{"a":"\udc00"}"#, #"{"a":"\ud800x"}"#, #"{"a":"\ud800\n"}"#, #"{"a":"\ud800A"}"#, #"{"a":[1}"#, #"{"a":[1,]}"#,
    #"{"a":{"b":1]}"#, #"{"a":1/**/}"#, "\u{FEFF}{}", #"{"a":NaN}"#, #"{"a":[,1]}"#, #"{"a"::1}"#, #"{"a":1,,"b":2}"#,
  ])
  func `what is no JSON object is refused`(text: String) {
    #expect(read(text, "a", "b") == nil)
  }

  @Test(
    arguments: [
      [0x80], [0xC0, 0x80], [0xC3], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80], [0xF0, 0x80, 0x80, 0x80],
      [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xC3, 0x28],
    ] as [[UInt8]])
  func `what is no UTF-8 is refused`(bytes: [UInt8]) {
    #expect(read(Array(#"{"a":""#.utf8) + bytes + Array(#""}"#.utf8), ["a"]) == nil)
  }

  @Test func `nesting has a bound`() {
    func nested(_ depth: Int) -> String {
      #"{"x":"# + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
    }
    #expect(read(nested(MemberScanner.depthLimit - 1), "a") != nil)
    #expect(read(nested(MemberScanner.depthLimit), "a") == nil)
    #expect(read(nested(100_000), "a") == nil)
  }

  @Test func `a fault keeps none of the bytes after it from being read`() {
    var scanner = MemberScanner(names: [], capacity: 8)
    Array("x}}}}}}".utf8).withUnsafeBytes { scanner.take($0) }
    #expect(scanner.state == .fault && scanner.taken == 7)
  }

  private func hasTwin(_ text: String, _ names: String...) -> Bool {
    var scanner = MemberScanner(names: names.map { Array($0.utf8) }, capacity: text.utf8.count)
    Array(text.utf8).withUnsafeBytes { scanner.take($0) }
    return scanner.isWhole && scanner.hasTwin
  }

  @Test(arguments: [
    #"{"ID":1}"#, #"{"id":1,"Id":2}"#, #"{"iD":1,"id":2}"#, #"{"id\u0000":1}"#, #"{"id\u0000x":1}"#,
    #"{"ID\u0000":[]}"#,
    #"{"\u0049d":{}}"#, #"{"id ":1}"#, #"{"id\t\n":1}"#, #"{"TAS\u212a":1}"#, #"{"ta\u017fk":1}"#, #"{"taſK":1}"#,
  ])
  func `a member that some parsers take for one that is asked for is told`(text: String) {
    #expect(hasTwin(text, "id", "task"))
  }

  @Test func `other members are others, and one that is asked for is no twin of another`() {
    #expect(!hasTwin(#"{"id":1,"i":2,"idd":3,"":4,"x":{"ID":5},"i\u0000d":6,"i d":7," id":8,"ïd":9}"#, "id"))
    #expect(!hasTwin(#"{"id":1,"ID":2}"#, "id", "ID"))
    #expect(hasTwin(#"{"id":1,"ID":2,"Id":3}"#, "id", "ID"))
    #expect(!hasTwin(#"{"ID":1}"#))
  }
}
