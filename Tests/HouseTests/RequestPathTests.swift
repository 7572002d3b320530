@testable import Features
@testable import Forward
import Language
import Testing
@testable import Traffic

/// What keeps the request path in the shape of docs/ARCHITECTURE.md.
@Suite struct `The request path` {
  private func files(below path: String) throws -> [SourceFile] {
    let files = SourceFile.sources.filter { $0.path.hasPrefix(path) }
    return try #require(files.isEmpty ? nil : files)
  }

  @Test func `only HTTP and the HTTP 1 streams write HTTP 1 text`() {
    let allowed = [
      "Sources/HTTP/", "Sources/Traffic/Client/HTTP1Stream.swift", "Sources/Upstream/HTTP1UpstreamStream.swift",
      // nginx's 497: a plain request on a TLS port, before there is a stream.
      "Sources/Traffic/Client/ClientHandshake.swift",
      // The report of `check --explain`, which goes to nobody but its reader.
      "Sources/Traffic/Explain/", "Sources/Forward/RehearsedPass.swift",
    ]
    let found = SourceFile.places(of: ["HTTP1Encoder", "HeadWriter", "ChunkedWriter"]) { file in
      allowed.contains { file.path.hasPrefix($0) }
    }
    #expect(found.isEmpty, "\(found)")
  }

  @Test(arguments: [
    "Sources/Traffic/Exchange/", "Sources/Forward/", "Sources/Traffic/Location/", "Sources/Features/",
  ])
  func `exchanges, locations and features name no transport`(folder: String) throws {
    let types = ["ByteStream", "TLSStream", "HTTP1Connection", "HTTP1Stream"]
    let found = SourceFile.places(of: types, in: try files(below: folder))
    #expect(found.isEmpty, "\(found)")
  }

  @Test func `nobody asks a transport whether it is TLS`() {
    #expect(SourceFile.places(of: ["as? TLSStream"]).isEmpty)
  }

  @Test func `Transport knows no TLS and no HTTP`() throws {
    let found = SourceFile.places(
      of: ["TLS", "HTTP", "handshake", "isEarly"], in: try files(below: "Sources/Transport/"))
    #expect(found.isEmpty, "\(found)")
  }

  @Test func `nobody but the exchange changes its state`() throws {
    let main = try #require(SourceFile.sources.first { $0.path.hasSuffix("/Exchange.swift") })
    let stored = main.code.map(\.text).filter { line in
      line.hasPrefix("  ") && !line.hasPrefix("   ") && line.contains(" var ") && !line.hasSuffix("{")
        && !line.hasSuffix("}") && !line.contains("func ")
    }
    #expect(stored.count > 5)
    for line in stored { #expect(line.contains("private"), "\(line)") }
  }

  @Test(arguments: ["gzip", "Compress", "limit_rate", "Pacer", "add_trailer", "envelope", "Envelope"])
  func `the way of a response names no filter`(word: String) throws {
    let names = [
      "Exchange/ExchangeResponse.swift", "Exchange/ResponseFilter.swift", "Client/HTTP1Stream.swift",
      "Client/HTTP2Stream.swift", "Client/HTTP1Connection.swift", "Client/HTTP2Connection.swift",
      "Client/TCPStream.swift", "Client/TCPConnection.swift",
    ]
    for name in names {
      let file = try #require(SourceFile.sources.first { $0.path.hasSuffix("Traffic/\(name)") })
      #expect(file.code(with: [word]).isEmpty, "\(name)")
    }
  }

  @Test(arguments: ["LiveLocation", "ProxyHandler", "TCPHandler", "ContentHandler", "CompiledPass", "LiveContent"])
  func `connections of clients know neither location nor handler`(type: String) {
    // After a reload, SessionReview finds the locations of the requests in progress.
    let files = SourceFile.sources.filter {
      $0.path.contains("Traffic/Client/") && !$0.path.hasSuffix("SessionReview.swift")
    }
    #expect(files.count > 10)
    let found = SourceFile.places(of: [type], in: files)
    #expect(found.isEmpty, "\(found)")
  }
}
