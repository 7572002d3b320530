import Testing

/// What keeps the request path in the shape of docs/ARCHITECTURE.md.
@Suite struct `The request path` {
  private func lines(of path: String) -> [String] {
    SourceFile.sources.filter { $0.path.hasPrefix(path) }.flatMap { file in file.code.map(\.text) }
  }

  @Test func `only HTTP and the HTTP 1 streams write HTTP 1 text`() {
    let allowed = [
      "Sources/HTTP/", "Sources/Proxy/Client/HTTP1Stream.swift", "Sources/Upstream/HTTP1UpstreamStream.swift",
      // nginx's 497: a plain request on a TLS port, before there is a stream.
      "Sources/Proxy/Client/ClientHandshake.swift",
      // The report of `check --explain`, which goes to nobody but its reader.
      "Sources/Proxy/Explain/",
    ]
    for file in SourceFile.sources where !allowed.contains(where: { file.path.hasPrefix($0) }) {
      for line in file.code {
        for name in ["HTTP1Encoder", "HeadWriter", "ChunkedWriter"] {
          #expect(!line.text.contains(name), "\(file.path):\(line.number)")
        }
      }
    }
  }

  @Test(arguments: ["Sources/Proxy/Exchange/", "Sources/Proxy/Phases/", "Sources/Proxy/Content/"])
  func `exchanges, phases and handlers name no transport`(folder: String) {
    #expect(!lines(of: folder).isEmpty)
    for line in lines(of: folder) {
      for name in ["ByteStream", "TLSStream", "HTTP1Connection", "HTTP1Stream"] {
        #expect(!line.contains(name), "\(line)")
      }
    }
  }

  @Test func `nobody asks a transport whether it is TLS`() {
    for line in lines(of: "Sources/") { #expect(!line.contains("as? TLSStream"), "\(line)") }
  }

  @Test func `Transport knows no TLS and no HTTP`() {
    for line in lines(of: "Sources/Transport/") {
      for word in ["TLS", "HTTP", "handshake", "isEarly"] { #expect(!line.contains(word), "\(line)") }
    }
  }

  @Test func `an exchange is three files, and fifteen properties that it alone changes`() throws {
    let files = SourceFile.sources.filter { file in
      file.code.contains { $0.text.contains("class Exchange ") || $0.text.contains("extension Exchange ") }
    }
    #expect(files.count <= 3, "\(files.map(\.path))")
    let main = try #require(files.first { $0.path.hasSuffix("/Exchange.swift") })
    let stored = main.code.map(\.text).filter { line in
      line.hasPrefix("  ") && !line.hasPrefix("   ") && (line.contains(" var ") || line.contains(" let "))
        && !line.hasSuffix("{") && !line.hasSuffix("}") && !line.contains("func ")
    }
    #expect(stored.count <= 15 && stored.count > 10, "\(stored)")
    for line in stored where line.contains(" var ") { #expect(line.contains("private"), "\(line)") }
  }
}
