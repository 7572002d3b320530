/// What curl was answered.
package struct CurlResult: Sendable {
  /// curl's own exit status: 0, or why it failed (52 empty reply, 18 partial, 35 handshake, 56 receive).
  package let exit: Int32
  /// The last response's, without interim ones.
  package let response: HTTPMessage
  /// All heads, redirects and interim responses included.
  package let heads: String
  package let body: [UInt8]
  package let errors: String
  package var status: Int { response.status }
  package var text: String { String(decoding: body, as: UTF8.self) }
  package subscript(name: String) -> String? { response[name] }
}

extension Scene {
  /// Runs curl, without the user's settings and proxies, bounded in time.
  package func curl(_ arguments: [String], input: [UInt8]? = nil) async throws -> CurlResult {
    let name = "curl-\(UInt32.random(in: 0...UInt32.max))"
    var all = [
      "-q", "-sS", "--noproxy", "*", "--max-time", "30", "-D", path("\(name).heads"), "-o", path("\(name).body"),
    ]
    if let input { all += ["--data-binary", "@" + (try write("\(name).input", input))] }
    let result = try await run("curl", all + arguments)
    let heads = text("\(name).heads")
    let last = heads.replacing("\r\n", with: "\n").split(separator: "\n\n").last { $0.hasPrefix("HTTP/") } ?? ""
    return CurlResult(
      exit: result.status, response: HTTPMessage(head: Array(String(last).utf8)), heads: heads,
      body: bytes("\(name).body"), errors: result.errors)
  }
}
