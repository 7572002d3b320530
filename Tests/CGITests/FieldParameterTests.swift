import Bytes
import CGI
import HTTP
import Testing

@Suite struct `Fields as parameters` {
  /// The parameters that the fields of a request become.
  private func parameters(_ fields: String, except names: String...) throws -> [String] {
    var reserved = ReservedParameters()
    for name in names { reserved.insert(Array(name.utf8)) }
    var block = ParameterBlock(.fastCGI(keepsConnection: false))
    try block.addFields(of: requestHead(fields), except: reserved)
    return try #require(pairs(Array(block.bytes))).filter { $0 != "HTTP_HOST=z" }
  }

  @Test(
    arguments: [
      ("X-Client-DN", "HTTP_X_CLIENT_DN"), ("X_Client_DN", "HTTP_X_CLIENT_DN"), ("x.client.dn", "HTTP_X_CLIENT_DN"),
      ("x+CLIENT~dn", "HTTP_X_CLIENT_DN"), ("A1", "HTTP_A1"),
    ])
  func `a field's parameter has its name in capitals, with an underscore for all but letters and digits`(
    field: String, name: String
  ) throws {
    #expect(withBytes(field) { FieldParameters.parameterName(ofField: $0) } == Array(name.utf8))
    #expect(try parameters("\(field): v\r\n") == ["\(name)=v"])
  }

  @Test func `no spelling of a field replaces a parameter of the configuration`() throws {
    let fields = "X-Client-DN: a\r\nX_Client_DN: b\r\nx.client.dn: c\r\nX-Client: d\r\nX-Client-DN-2: e\r\n"
    let rest = ["HTTP_X_CLIENT=d", "HTTP_X_CLIENT_DN_2=e"]
    #expect(try parameters(fields, except: "HTTP_X_CLIENT_DN", "REMOTE_USER", "HTTP_") == rest)
    #expect(try parameters(fields, except: "http_x.client_dn") == rest)
    #expect(try parameters("Remote-User: a\r\n", except: "REMOTE_USER") == ["HTTP_REMOTE_USER=a"])
  }

  @Test(arguments: ["Proxy", "proxy", "PROXY", "pROXY"]) func `Proxy never becomes HTTP_PROXY (httpoxy)`(
    name: String
  ) throws {
    #expect(try parameters("\(name): http://evil/\r\nProxy-X: y\r\n") == ["HTTP_PROXY_X=y"])
  }

  @Test func `fields of the client's connection and those with parameters of their own are not passed`() throws {
    let fields =
      "Connection: keep-alive, X-Hop\r\nX-Hop: a\r\nKeep-Alive: 1\r\nTE: trailers\r\nUpgrade: x\r\n"
      + "Content-Length: 3\r\nProxy-Connection: x\r\nContent-Type: t\r\nContent_Type: u\r\ncontent.type: v\r\nAuthorization: Basic x\r\n"
    #expect(try parameters(fields) == ["HTTP_AUTHORIZATION=Basic x"])
    #expect(try parameters("Transfer-Encoding: chunked\r\nAccept: */*\r\n") == ["HTTP_ACCEPT=*/*"])
  }

  @Test func `values of one name are joined where its first field stands`() throws {
    let fields = "X-A: 1\r\nCookie: a=b\r\nx-a: 2\r\nB: \r\ncookie: c=d\r\nX-A: \r\n"
    #expect(try parameters(fields) == ["HTTP_X_A=1, 2, ", "HTTP_COOKIE=a=b; c=d", "HTTP_B="])
  }

  @Test func `another spelling neither replaces nor extends the name with hyphens`() throws {
    #expect(try parameters("X-User: anna\r\nX_User: root\r\nX.User: root\r\n") == ["HTTP_X_USER=anna"])
    #expect(try parameters("X_User: root\r\nx-user: anna\r\nX-USER: eva\r\n") == ["HTTP_X_USER=anna, eva"])
    #expect(try parameters("X_User: a\r\nX.User: b\r\nx_user: c\r\n") == ["HTTP_X_USER=a, c"])
  }

  @Test func `a field that isn't passed hides no other spelling`() throws {
    #expect(try parameters("Connection: X_User\r\nX_User: root\r\nX-User: anna\r\n") == ["HTTP_X_USER=anna"])
    #expect(try parameters("Connection: X-User\r\nX-User: root\r\nX_User: anna\r\n") == ["HTTP_X_USER=anna"])
  }

  @Test func `a request without fields has no parameters of fields`() throws {
    let head = RequestHead()
    var parser = HeadParser()
    _ = withBytes("GET / HTTP/1.0\r\n\r\n") { parser.request($0, limits: HeadLimits(), into: head) }
    var block = ParameterBlock(.scgi)
    try block.addFields(of: head)
    #expect(block.count == 0)
  }

  @Test func `random fields become what the rules say, said otherwise`() throws {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<300 {
      let fields = (0..<Int.random(in: 0...60, using: &random)).map { index in
        let name = (0..<Int.random(in: 1...3, using: &random)).map { _ in "aAb-_.".randomElement(using: &random) ?? "a"
        }
        return (name: String(name), value: "\(index)")
      }
      func parameter(_ name: String) -> String { String(name.uppercased().map { $0.isLetter ? $0 : "_" }) }
      var expected: [String] = []
      for (index, field) in fields.enumerated() where parameter(field.name) != "A_A" {
        let all = fields.enumerated().filter { parameter($0.element.name) == parameter(field.name) }
        guard all.first?.offset == index else { continue }
        let taken = all.map(\.element.name).first { $0.allSatisfy { $0.isLetter || $0 == "-" } } ?? field.name
        let values = all.map(\.element).filter { $0.name.lowercased() == taken.lowercased() }.map(\.value)
        expected.append("HTTP_\(parameter(field.name))=\(values.joined(separator: ", "))")
      }
      let text = fields.map { "\($0.name): \($0.value)\r\n" }.joined()
      #expect(try parameters(text, except: "HTTP_A_A") == expected, "\(text)")
    }
  }

  @Test func `a thousand fields fit, and too much is refused`() throws {
    let fields = (0..<998).map { "n\($0): \($0)\r\n" }.joined()
    #expect(try parameters(fields).count == 998)
    var block = ParameterBlock(.uwsgi(modifier1: 0, modifier2: 0))
    let large = (0..<9).map { "n\($0): \(String(repeating: "v", count: 8000))\r\n" }.joined()
    let head = RequestHead()
    var parser = HeadParser()
    _ = withBytes("GET / HTTP/1.1\r\nHost: z\r\n\(large)\r\n") {
      parser.request($0, limits: HeadLimits(headBytes: 100_000), into: head)
    }
    #expect(throws: ParameterFault.tooLarge(limit: 65_535)) { try block.addFields(of: head) }
  }
}
