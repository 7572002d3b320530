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
  /// The version of HTTP that curl was to speak.
  package let speech: Speech
  package var status: Int { response.status }
  package var text: String { String(decoding: body, as: UTF8.self) }
  package subscript(name: String) -> String? { response[name] }
}

extension Scene {
  /// Runs curl, without the user's settings and proxies, bounded in time. It speaks the scene's version of HTTP to every
  /// daemon of the scene; another version is an error.
  package func curl(_ arguments: [String], input: [UInt8]? = nil) async throws -> CurlResult {
    let name = "curl-\(UInt32.random(in: 0...UInt32.max))"
    // A test that names a version means it.
    let speech = isOurs(arguments) && !arguments.contains { $0.hasPrefix("--http") } ? speech : .http1
    var all = [
      "-q", "-sS", "--noproxy", "*", "--max-time", "30", "-D", path("\(name).heads"), "-o", path("\(name).body"),
      "-w", "%{http_version}",
    ]
    all += speech.curl(isTLS: arguments.contains { $0.hasPrefix("https://") })
    if let input { all += ["--data-binary", "@" + (try write("\(name).input", input))] }
    let result = try await run("curl", all + arguments)
    // 0: there was no answer.
    if speech == .http2, !["2", "0"].contains(result.text) || Self.curlFoundNoHTTP2.contains(result.status) {
      let words = arguments.joined(separator: " ")
      throw ToolFailed(description: "curl spoke HTTP/\(result.text), not HTTP/2: \(result.errors) \(words)")
    }
    if speech == self.speech, isOurs(arguments) { didSpeak() }
    let heads = text("\(name).heads")
    let last = heads.replacing("\r\n", with: "\n").split(separator: "\n\n").last { $0.hasPrefix("HTTP/") } ?? ""
    return CurlResult(
      exit: result.status, response: HTTPMessage(head: Array(String(last).utf8)), heads: heads,
      body: bytes("\(name).body"), errors: result.errors, speech: speech)
  }

  /// curl's exit statuses when the first bytes of a plain listener are no frames: 52 if the connection
  /// ends after them, 55 if it ends while curl sends.
  private static let curlFoundNoHTTP2: [Int32] = [16, 52, 55]

  /// Whether these words lead curl to a daemon of this scene.
  private func isOurs(_ arguments: [String]) -> Bool {
    let target =
      arguments.firstIndex(of: "--connect-to").flatMap { arguments.dropFirst($0 + 1).first }
      ?? arguments.first { $0.hasPrefix("http://") || $0.hasPrefix("https://") }?.split(separator: "/").dropFirst()
      .first
      .map(String.init)
    return target?.split(separator: ":").last.flatMap { UInt16($0) }.map(isDaemon) ?? false
  }
}
