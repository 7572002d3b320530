import Bytes
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `Sets of field names` {
  private func contains(_ set: NameSet, _ line: String) throws -> Bool {
    let head = RequestHead()
    var parser = HeadParser()
    var limits = HeadLimits()
    limits.underscores = true
    let text = "GET / HTTP/1.1\r\nHost: a\r\n\(line)\r\n\r\n"
    _ = text.utf8.withContiguousStorageIfAvailable {
      parser.request(UnsafeRawBufferPointer($0), limits: limits, into: head)
    }
    let field = try #require(head.fields.last)
    return set.contains(field, in: head.bytes.readable)
  }

  @Test(arguments: ["X-Client-DN: a", "x-client-dn: a", "X_Client_DN: a", "X-Client_dn: a"])
  func `a field that says who the client is counts under every spelling`(line: String) throws {
    var set = NameSet()
    set.insert(Array("X-Client-DN".utf8), withAliases: true)
    #expect(try contains(set, line))
    #expect(try !contains(set, "X-Client-D: a"))
    #expect(try !contains(set, "X-Client-DNS: a"))
  }

  @Test func `another field counts under its name alone, in any case`() throws {
    var set = NameSet()
    set.insert(Array("X-Mine".utf8), withAliases: false)
    set.insert(Array("Accept".utf8), withAliases: false)
    #expect(try contains(set, "x-mine: a") && contains(set, "ACCEPT: a"))
    #expect(try !contains(set, "X_Mine: a"))
  }
}
