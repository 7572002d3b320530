import Language
import Testing

@testable import Proxy

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

  @Test(arguments: ["Sources/Proxy/Exchange/", "Sources/Proxy/Location/", "Sources/Proxy/Features/"])
  func `exchanges, locations and features name no transport`(folder: String) {
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

  @Test func `nobody but the exchange changes its state`() throws {
    let main = try #require(SourceFile.sources.first { $0.path.hasSuffix("/Exchange.swift") })
    let stored = main.code.map(\.text).filter { line in
      line.hasPrefix("  ") && !line.hasPrefix("   ") && line.contains(" var ") && !line.hasSuffix("{")
        && !line.hasSuffix("}") && !line.contains("func ")
    }
    #expect(stored.count > 5)
    for line in stored { #expect(line.contains("private"), "\(line)") }
  }

  /// Who changes a directive opens one folder (docs/decisions/0030-features.md).
  @Test(arguments: [
    ("Gzip", Gzip.directives), ("RealIP", RealIP.directives),
    ("AuthBasic", AuthBasic.directives + AuthDelay.directives),
    ("AuthRequest", AuthRequest.directives), ("Mirror", Mirror.directives), ("Signatures", Signatures.directives),
    ("Envelope", MessageEnvelopes.directives), ("ClientRules", ClientIdentity.directives),
    ("Access", SatisfyAny.directives),
    ("Rewrite", Rewrite.directives), ("Referers", Referers.directives), ("Map", Map.directives),
    ("Geo", Geo.directives), ("SplitClients", SplitClients.directives), ("TraceContext", TraceContext.directives),
    ("Log", AccessLogs.directives + ErrorLogs.directives), ("ErrorPages", ErrorPages.directives),
    ("Headers", AddHeader.directives + AddTrailer.directives), ("EarlyHints", EarlyHints.directives),
  ])
  func `the directives of a feature are named in its folder only`(folder: String, rows: [DirectiveEntry]) {
    let own = SourceFile.sources.filter { $0.path.contains("/Features/\(folder)/") }
    #expect(!own.isEmpty && !rows.isEmpty)
    // Also the name of a content coding and a word of access_log, and that of a context.
    for name in rows.map(\.name) where !["gzip", "if"].contains(name) {
      let others = SourceFile.sources.filter { file in
        !file.path.contains("/Features/\(folder)/") && file.lines.contains { $0.contains("\"\(name)\"") }
      }
      #expect(others.isEmpty, "\(name): \(others.map(\.path))")
    }
  }

  /// A feature without tests of its own, and why. Better a test than an exception.
  private static let withoutTests: [String: String] = [:]

  @Test func `each feature's tests stand under its name`() {
    func folders(_ files: [SourceFile], below path: String) -> Set<String> {
      Set(
        files.filter { $0.path.hasPrefix(path) }.compactMap { file in
          let parts = file.path.dropFirst(path.count).split(separator: "/")
          return parts.count > 1 ? String(parts[0]) : nil
        })
    }
    let features = folders(SourceFile.sources, below: "Sources/Proxy/Features/")
    let suites = SourceFile.tests.filter { $0.path.hasSuffix("Tests.swift") }
    let tested = folders(suites, below: "Tests/ProxyTests/Features/")
      .union(folders(suites, below: "Tests/EndToEndTests/Features/"))
    #expect(features.count > 40)
    let missing = features.subtracting(tested).subtracting(Self.withoutTests.keys)
    #expect(missing.isEmpty, "make a folder in Tests/ProxyTests/Features for \(missing.sorted())")
    let foreign = tested.subtracting(features)
    #expect(foreign.isEmpty, "no folder of Sources/Proxy/Features has the name \(foreign.sorted())")
    #expect(tested.isDisjoint(with: Self.withoutTests.keys) && features.isSuperset(of: Self.withoutTests.keys))
  }

  @Test(arguments: ["gzip", "Compress", "limit_rate", "Pacer", "add_trailer", "envelope", "Envelope"])
  func `the way of a response names no filter`(word: String) throws {
    let names = [
      "Exchange/ExchangeResponse.swift", "Exchange/ResponseFilter.swift", "Client/HTTP1Stream.swift",
      "Client/HTTP2Stream.swift", "Client/HTTP1Connection.swift", "Client/HTTP2Connection.swift",
    ]
    for name in names {
      let file = try #require(SourceFile.sources.first { $0.path.hasSuffix("Proxy/\(name)") })
      for (number, text) in file.code { #expect(!text.contains(word), "\(name):\(number): \(text)") }
    }
  }

  @Test(arguments: ["LiveLocation", "ProxyHandler", "ContentHandler"])
  func `connections of clients know neither location nor handler`(type: String) {
    // After a reload, SessionReview finds the locations of the requests in progress.
    let files = SourceFile.sources.filter {
      $0.path.contains("Proxy/Client/") && !$0.path.hasSuffix("SessionReview.swift")
    }
    #expect(files.count > 10)
    for file in files {
      for (number, text) in file.code { #expect(!text.contains(type), "\(file.path):\(number): \(text)") }
    }
  }
}
