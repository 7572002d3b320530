import Bytes
import Foundation
@testable import Proxy
import TestSupport
import Testing

/// Variables that are declared plain, and values that a connection keeps, skip the escaping of an access line.
@Suite struct `Lines of the access log in JSON` {
  private static let others = [
    "http_x", "http_user_agent", "arg_a", "cookie_c", "sent_http_x_sent", "sent_http_location", "named",
  ]
  private static let names = SimpleVariable.allCases.map(\.rawValue) + others

  /// Bytes that a client may try, alone and within a sequence that is not UTF-8.
  private static let texts: [[UInt8]] =
    (0...255).map { [UInt8($0)] } + [
      [0xC3], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xED, 0xA0, 0x80], [0xC0, 0xAF], [0xC3, 0xA9], [0x5C, 0x22],
      Array(#"","status":"forged"#.utf8), Array("xxxxxxx\"".utf8), Array("xxxxxxxx\\x".utf8),
    ]

  private static func head(_ text: [UInt8], inTarget: Bool) -> [UInt8] {
    let middle = Array("a".utf8) + text + Array("b".utf8)
    let shown = inTarget ? middle : Array("ab".utf8)
    let fields = inTarget ? Array("ab".utf8) : middle
    var head = Array("GET /".utf8) + shown + Array("?a=".utf8) + shown + Array(" HTTP/1.1\r\nHost: h\r\n".utf8)
    for name in ["X", "User-Agent", "X-Forwarded-For", "Content-Type", "traceparent", "tracestate", "Range"] {
      head += Array("\(name): ".utf8) + fields + Array("\r\n".utf8)
    }
    head += Array("Cookie: c=".utf8) + fields + Array("\r\n".utf8)
    head += Array("Authorization: Basic \(Base64.encode(text + Array(":p".utf8)))\r\n\r\n".utf8)
    return head
  }

  @Test(arguments: [true, false])
  func `each is one object with every variable, whatever bytes a request has`(inTarget: Bool) async throws {
    let scene = try Scene()
    defer { scene.end() }
    let members = Self.names.map { "\"\($0)\":\"${\($0)}\"" }.joined(separator: ",")
    let rig = try Rig(
      """
      log_format all escape=json '{\(members)}'; underscores_in_headers on; ignore_invalid_headers off;
      server { listen 127.0.0.1:1; server_name a; trace_context on; add_header X-Sent $http_x always;
        location ~ "^/(?<named>.*)$" { return 302 /x$arg_a; } }
      """, accessLog: "\(scene.path("access.log")) all")
    for text in Self.texts { _ = try rig.answer(Self.head(text, inTarget: inTarget)) }
    rig.flushLogs()
    let lines = try Data(contentsOf: URL(fileURLWithPath: scene.path("access.log"))).split(separator: 0x0A)
    #expect(lines.count == Self.texts.count)
    var statuses: Set<String> = []
    for line in lines {
      let object = try? JSONSerialization.jsonObject(with: Data(line)) as? [String: String]
      #expect(object.map { Set($0.keys) } == Set(Self.names), "\(String(decoding: line, as: UTF8.self))")
      if let status = object?["status"] { statuses.insert(status) }
    }
    #expect(statuses == ["302", "400"], "some bytes pass, and some are refused")
  }
}
