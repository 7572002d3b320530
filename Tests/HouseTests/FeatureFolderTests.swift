@testable import Features
@testable import Forward
import Foundation
import Language
import TestSupport
import Testing
@testable import Traffic

/// Who changes a directive opens one folder (docs/decisions/0030-features.md).
@Suite struct `Folders of features` {
  /// The names of directives that are also words of something else, and of what.
  private static let otherMeanings: [String: String] = [
    "interval": "a parameter of health checks",
    "profile": "a member of orders", "ssl_verify": "a condition of sessions",
    "ssl_trusted_certificate": "a directive of servers, and one of acme_issuer",
    "uri": "a variable, and a parameter of challenges",
    "allow": "a field of responses, and a label of the policy", "deny": "a label of the policy",
    "charset": "a parameter of challenges",
    "daemon": "a facility of syslog, and an option of nginx's command line",
    "master_process": "an option of nginx's command line", "etag": "a field of responses",
    "expires": "a field of responses, and a parameter of signatures", "gzip": "a content coding",
    "hash": "a parameter of a key", "header": "a word of JSON and of conditions", "http": "a scheme, and a context",
    "http3": "a variable, and a former parameter of listen",
    "events": "a context",
    "location": "a context, and a field of responses", "server": "a context, and a label",
    "upstream": "a context, and a label",
    "expect": "a field of requests", "send": "a system call", "ssl_preread": "a label", "starttls": "a label",
    "include": "the parser follows it", "keepalive_requests": "a directive of http and one of upstream",
    "keepalive_time": "a directive of http and one of upstream",
    "keepalive_timeout": "a directive of http and one of upstream", "listen": "a system call, and a label",
    "proxy_protocol": "a parameter of listen, and a value of real_ip_header", "root": "a user",
    "rewrite": "a word of what leads to a location",
    "keyval": "a command of `sallyport ctl`",
    "return": "a directive of http and one of stream", "set": "a directive of http and one of stream",
    "sendfile": "a system call", "use": "a label of metrics", "server_name": "a variable in a log format",
    "ssl": "a parameter of listen",
    "state": "a member of the API, a label of metrics, and a parameter of keyval_zone",
    "spiffe_endpoint": "a line of the configuration that the options of `sallyport proxy` stand for",
    "status": "a pseudo-field, a variable and a label", "stream": "a context, and a state of connections",
    "keepalive": "a member of the API", "pid": "a member of the API",
    "trusted_certificate": "a parameter of shared_store",
    "user": "a facility of syslog",
    "zone": "a parameter of limits",
  ]

  /// By the word of a string literal: the folders of Sources that have it.
  private static let folders: [String: Set<String>] = {
    var folders: [String: Set<String>] = [:]
    // A conversion writes configurations as people do, and reads nothing but what it has written (`ConvertedBlock`).
    for file in SourceFile.sources where file.module != "Conversion" {
      let folder = file.path.split(separator: "/").dropLast().joined(separator: "/")
      for word in literals(of: file) { folders[word, default: []].insert(folder) }
    }
    return folders
  }()

  @Test func `a directive is named in one folder`() {
    let names = Set(Features.all.directives.all.flatMap { $0.directives.map(\.name) })
    #expect(names.count > 350)
    for name in names where Self.otherMeanings[name] == nil {
      let all = Self.folders[name, default: []]
      #expect(all.count < 2, "\(name): \(all)")
    }
  }

  @Test func `the lines of a directive are found by its row`() {
    let lookUp = /\b(?:scope|http|stream|server|inner|outer|next)\.(?:own|value|list|flag|number|size|text)\("/
    for file in SourceFile.sources where file.module == "Features" {
      for (index, line) in file.lines.enumerated() where line.contains("(\"") {
        #expect(!line.contains(lookUp), "\(file.path):\(index + 1)")
      }
    }
  }

  @Test func `every word with another meaning is still needed`() {
    let names = Set(Features.all.directives.all.flatMap { $0.directives.map(\.name) })
    for word in Self.otherMeanings.keys {
      #expect(names.contains(word) && Self.folders[word, default: []].count > 1, "\(word)")
    }
  }

  @Test func `each feature's tests stand under its name`() {
    func folders(_ files: [SourceFile], below path: String) -> Set<String> {
      Set(
        files.filter { $0.path.hasPrefix(path) }.compactMap { file in
          let parts = file.path.dropFirst(path.count).split(separator: "/")
          return parts.count > 1 ? String(parts[0]) : nil
        })
    }
    let features = folders(SourceFile.sources, below: "Sources/Features/")
    let suites = SourceFile.tests.filter { $0.path.hasSuffix("Tests.swift") }
    // `Requests` has what whole requests show of Traffic and Forward, which a rig sends through features.
    let tested = folders(suites, below: "Tests/FeaturesTests/").subtracting(["Requests"])
      .union(folders(suites, below: "Tests/EndToEndTests/Features/"))
    #expect(features.count > 40)
    let missing = features.subtracting(tested)
    #expect(missing.isEmpty, "make a folder in Tests/FeaturesTests for \(missing.sorted())")
    let foreign = tested.subtracting(features)
    #expect(foreign.isEmpty, "no folder of Sources/Features has the name \(foreign.sorted())")
  }

  @Test func `MIGRATING names the variables that nginx lacks`() throws {
    let page = try String(contentsOfFile: "\(checkout)/docs/MIGRATING-FROM-NGINX.md", encoding: .utf8)
    let part =
      page.split(separator: "### Your own variables").last?.split(separator: "If your configuration").first ?? ""
    let told = Set(part.matches(of: /`\$([a-z0-9_]+)`/).map { String($0.output.1) })
    let own =
      SimpleVariable.allCases.filter(\.isOursAlone).map(\.rawValue)
      + [TrafficKind.http, .stream].flatMap { Features.all.directives.variables.ofFeatures($0).values }.filter(
        \.isOursAlone
      ).map(\.name)
    #expect(told == Set(own), "\(told.symmetricDifference(own))")
  }

  /// The string literals of a file that are one word, those of comments left out.
  private static func literals(of file: SourceFile) -> Set<String> {
    var words: Set<String> = []
    for line in file.lines where !line.utf8.drop(while: { $0 == 0x20 }).starts(with: "//".utf8) {
      for (index, piece) in line.utf8.split(separator: 0x22, omittingEmptySubsequences: false).enumerated()
      where index % 2 == 1 && !piece.isEmpty && piece.allSatisfy(isOfName) {
        words.insert(String(decoding: piece, as: UTF8.self))
      }
    }
    return words
  }

  private static func isOfName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
    default: false
    }
  }
}
