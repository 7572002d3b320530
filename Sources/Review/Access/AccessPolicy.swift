import Crypto
package import Language
package import Observability
import SPIFFE
import Traffic
package import Transport

/// Who is to get where, and who isn't: the file of `sallyport check --policy`, read and not judged yet.
///
/// It is written in the words of a configuration: statements that end in `;`, and a block for each client. Nothing in it
/// changes what the daemon does.
package struct AccessPolicy: Sendable {
  /// Where an assertion leads.
  package enum Target: Sendable, Hashable {
    case upstream(String)
    case place(AccessPlace)

    package var words: String {
      switch self {
      case .upstream(let name): "upstream \(name)"
      case .place(let place): place.words
      }
    }
  }

  /// What one request is expected to get.
  package enum Expectation: Sendable, Hashable {
    /// What is there; with this status, if one is given.
    case allowed(status: UInt16?)
    /// What is there, if somebody who is asked admits the client (`auth_basic`, `auth_request`).
    case asked
    /// A refusal; with this status, if one is given.
    case refused(status: UInt16?)
  }

  package enum Claim: Sendable {
    case one(client: String, AccessPlace, Expectation)
    /// Nobody but these clients gets there, and each of them does.
    case only(clients: [String], Target, unlessAsked: Bool)
    /// Nobody gets there; or nobody whose certificate isn't verified.
    case never(Target, onlyWithoutCertificate: Bool, unlessAsked: Bool)
    /// This client doesn't get there, by no way.
    case refused(client: String, Target, unlessAsked: Bool)
    /// The upstream always gets this field from sallyport, or never one of a client's own.
    case tells(upstream: String, field: String, isAlwaysThere: Bool)
  }

  package struct Assertion: Sendable {
    package let claim: Claim
    /// As it is written, without its semicolon.
    package let text: String
    package let place: SourceLocation
  }

  /// Rules that no assertion can miss, with the reason.
  package struct Untested: Sendable {
    /// What their statements begin with.
    package let rule: String
    package let reason: String
    package let place: SourceLocation
  }

  package private(set) var clients: [String: AccessClient] = [
    "nobody": .nobody, "stranger": .stranger,
  ]
  package private(set) var assertions: [Assertion] = []
  package private(set) var untested: [Untested] = []
  package private(set) var diagnostics: [Diagnostic] = []
  package let path: String

  // MARK: Rows

  static let rows: [DirectiveEntry] = [
    .local(
      "who", [], .words(1...1, "NAME; | NAME { … }"), "A client, by what its certificate says. `nobody` has none.",
      repeatable: true, example: "who boss { cn boss; }"),
    .local(
      "allow", [], .words(3...8, "NAME METHOD URL [STATUS | asked] | NAME TCP HOST:PORT"),
      "The client gets what is there. `asked`: if the one who is asked admits it.", repeatable: true,
      example: "allow boss GET https://erp.example.com/admin/;"),
    .local(
      "refuse", [], .words(3...8, "NAME METHOD URL [STATUS] | NAME TCP HOST:PORT | NAME to TARGET"),
      "The client doesn't get it; with `to`, by no way.", repeatable: true,
      example: "refuse joe GET https://erp.example.com/admin/ 403;"),
    .local(
      "only", [], .words(3...Int.max, "NAME … to upstream NAME | URL | TCP HOST:PORT [unless asked]"),
      "Nobody else gets there, by no way.", repeatable: true, example: "only boss to https://erp.example.com/admin/;"),
    .local(
      "never", [], .words(2...8, "to upstream NAME | URL | TCP HOST:PORT [without certificate] [unless asked]"),
      "Nobody gets there; or nobody without a certificate that verifies.", repeatable: true,
      example: "never to upstream erp without certificate;"),
    .local(
      "tells", [], .words(4...4, "upstream NAME FIELD always | unforged"),
      "The upstream gets the field with each request; never one that a client has written.", repeatable: true,
      example: "tells upstream erp X-Client-DN always;"),
    .local(
      "untested", [], .words(2...2, "RULE REASON"), "No assertion can miss the rules that begin with these words.",
      repeatable: true, example: "untested limit_req \"a rate is no matter of who somebody is\";"),
  ]

  // MARK: Reading

  package init(_ source: ConfigurationSource, files: SourceFiles = .disk) {
    path = source.name
    var parser = Parser(mainFile: source.name, files: files)
    let statements = source.parse(&parser)
    diagnostics = parser.diagnostics
    var seen: [String: SourceLocation] = [:]
    // Clients first: an assertion may stand before the client that it names.
    for line in statements where line.name == "who" { read(client: line, &seen) }
    for line in statements where line.name != "who" { read(line) }
    if diagnostics.isEmpty, assertions.isEmpty {
      diagnostics.append(
        Diagnostic(.error, at: nil, "\"\(path)\" asserts nothing", hint: "allow NAME GET https://example.com/;"))
    }
  }

  private mutating func fault(_ place: SourceLocation, _ message: String, hint: String? = nil) {
    diagnostics.append(Diagnostic(.error, at: place, message, hint: hint))
  }

  private mutating func read(client line: Directive, _ seen: inout [String: SourceLocation]) {
    guard line.arguments.count == 1 else {
      return fault(line.location, "\"who\" needs one name", hint: Self.usage("who"))
    }
    let name = line.text(0)
    if let first = seen.updateValue(line.location, forKey: name) {
      return fault(line.location, "the client \"\(name)\" is described twice", hint: "the first is at \(first)")
    }
    let (client, faults) = AccessClient.read(name, line.block ?? [])
    diagnostics += faults
    if line.block == nil, name != "nobody", name != "stranger" {
      return fault(
        line.location, "of the client \"\(name)\" nothing is said",
        hint: "write what its certificate says: who \(name) { cn \(name); }")
    }
    if line.block == nil { return }
    clients[name] = client
  }

  private mutating func read(_ line: Directive) {
    guard let row = Self.rows.first(where: { $0.name == line.name }) else {
      let nearest = Spelling.nearest(to: line.name, among: Self.rows.map(\.name))
      return fault(
        line.location, "unknown statement \"\(line.name)\" in a policy file",
        hint: nearest.map { "did you mean \"\($0)\"?" } ?? "one of \(Self.rows.map(\.name).joined(separator: ", "))")
    }
    guard line.block == nil, row.form.argumentCount.contains(line.arguments.count) else {
      return fault(line.location, "\"\(line.name)\" can't be read", hint: Self.usage(line.name))
    }
    var words = AccessWords(line)
    do throws(AccessWords.Fault) {
      if line.name == "untested" {
        return untested.append(Untested(rule: line.text(0), reason: line.text(1), place: line.location))
      }
      let claim = try Self.claim(line.name, &words)
      try words.expectEnd()
      for (client, place) in words.clients where clients[client] == nil {
        let nearest = Spelling.nearest(to: client, among: Array(clients.keys))
        fault(
          place, "nobody says who \"\(client)\" is",
          hint: nearest.map { "did you mean \"\($0)\"?" } ?? "who \(client) { cn \(client); }")
      }
      let text = ([line.name] + line.arguments.map { ConfigurationWord.written($0.text) }).joined(separator: " ")
      assertions.append(Assertion(claim: claim, text: text, place: line.location))
    } catch {
      fault(error.place, error.message, hint: error.hint ?? Self.usage(line.name))
    }
  }

  private static func usage(_ name: String) -> String {
    "expected: \(name) \(rows.first { $0.name == name }?.form.usage ?? "");"
  }

  private static func claim(_ name: String, _ words: inout AccessWords) throws(AccessWords.Fault) -> Claim {
    switch name {
    case "allow", "refuse":
      let client = try words.client()
      if name == "refuse", words.take("to") {
        return .refused(client: client, try words.target(), unlessAsked: words.take("unless", "asked"))
      }
      var place = try words.destination()
      let status = try words.status()
      let isAsked = name == "allow" && status == nil && words.take("asked")
      try words.options(&place)
      let expected: Expectation =
        isAsked ? .asked : name == "allow" ? .allowed(status: status) : .refused(status: status)
      return .one(client: client, place, expected)
    case "only":
      var clients = [try words.client()]
      while !words.take("to") { clients.append(try words.client()) }
      return .only(clients: clients, try words.target(), unlessAsked: words.take("unless", "asked"))
    case "never":
      try words.expect("to")
      let target = try words.target()
      let isOfCertificates = words.take("without", "certificate")
      return .never(target, onlyWithoutCertificate: isOfCertificates, unlessAsked: words.take("unless", "asked"))
    default:
      try words.expect("upstream")
      let upstream = try words.next("the name of an upstream"), field = try words.next("the name of a field")
      if words.take("unforged") { return .tells(upstream: upstream, field: field, isAlwaysThere: false) }
      try words.expect("always")
      return .tells(upstream: upstream, field: field, isAlwaysThere: true)
    }
  }
}

extension [AccessPolicy] {
  /// The trust domains of SPIFFE that clients of the files are of.
  var trustDomains: Set<TrustDomain> { Set(flatMap { $0.clients.values.flatMap(\.trustDomains) }) }
}

/// The words of one assertion, taken from left to right.
struct AccessWords {
  struct Fault: Error {
    let place: SourceLocation
    let message: String
    var hint: String?
  }

  private let line: Directive
  private var index = 0
  private(set) var clients: [(name: String, place: SourceLocation)] = []

  init(_ line: Directive) { self.line = line }

  private var place: SourceLocation { line.place(index) }
  private var isAtEnd: Bool { index >= line.arguments.count }

  mutating func next(_ what: String) throws(Fault) -> String {
    guard !isAtEnd else { throw Fault(place: line.location, message: "\"\(line.name)\" lacks \(what)") }
    defer { index += 1 }
    return line.text(index)
  }

  /// Takes these words if they come next.
  mutating func take(_ words: String...) -> Bool {
    let rest = line.arguments.dropFirst(index).prefix(words.count).map(\.text)
    guard rest == words else { return false }
    index += words.count
    return true
  }

  mutating func expect(_ word: String) throws(Fault) {
    guard !take(word) else { return }
    let found = isAtEnd ? "its end" : "\"\(line.text(index))\""
    throw Fault(place: place, message: "\"\(line.name)\": \(found) stands where \"\(word)\" is expected")
  }

  func expectEnd() throws(Fault) {
    guard !isAtEnd else { return }
    throw Fault(place: place, message: "\"\(line.name)\": \"\(line.text(index))\" is not expected here")
  }

  mutating func client() throws(Fault) -> String {
    let place = place
    let name = try next("the name of a client")
    clients.append((name, place))
    return name
  }

  mutating func target() throws(Fault) -> AccessPolicy.Target {
    if take("upstream") { return .upstream(try next("the name of an upstream")) }
    if !isAtEnd, line.text(index).contains("://") { return .place(try address("GET")) }
    return .place(try destination())
  }

  /// `METHOD URL` or `TCP HOST:PORT`.
  mutating func destination() throws(Fault) -> AccessPlace {
    let method = try next("a method and a URL")
    return try address(method)
  }

  private mutating func address(_ method: String) throws(Fault) -> AccessPlace {
    let place = place
    let url = try next("a URL")
    do throws(Explanation.Refusal) { return try AccessPlace(method, url) } catch {
      throw Fault(
        place: place, message: error.text, hint: "as GET https://example.com/path, or TCP db.example.com:5432")
    }
  }

  mutating func status() throws(Fault) -> UInt16? {
    guard !isAtEnd, let status = UInt16(line.text(index)) else { return nil }
    guard (100...599).contains(status) else { throw Fault(place: place, message: "\(status) is not a status of HTTP") }
    index += 1
    return status
  }

  /// `from=ADDRESS`, `sni=NAME`, `"header=NAME: VALUE"`.
  mutating func options(_ target: inout AccessPlace) throws(Fault) {
    while !isAtEnd {
      let word = line.text(index)
      guard let equals = word.firstIndex(of: "=") else { return }
      let value = String(word[word.index(after: equals)...])
      switch word[..<equals] {
      case "from":
        guard let address = SocketAddress(literal: value, port: 40_000) else {
          throw Fault(place: place, message: "\"\(value)\" is not an IPv4 or IPv6 address")
        }
        target.address = address
      case "sni": target.serverName = value
      case "header":
        guard AccessClient.isField(value) else {
          throw Fault(place: place, message: "\"\(value)\" is no field", hint: "\"header=NAME: VALUE\"")
        }
        target.fields.append(value)
      default:
        throw Fault(
          place: place, message: "unknown option \"\(word)\"", hint: "from=ADDRESS, sni=NAME or \"header=NAME: VALUE\"")
      }
      index += 1
    }
  }
}

/// What an assertion names: a request, or a connection to a server of `stream`.
package struct AccessPlace: Sendable, Hashable {
  /// `TCP`: a connection.
  package let method: String
  package let isTLS: Bool
  package let host: String
  package let port: UInt16
  package let target: String
  /// What the assertion calls it.
  private let url: String
  /// nil: the client's own, or an address from which nobody comes.
  package var address: SocketAddress?
  /// The name of the handshake; nil: that of the URL.
  package var serverName: String?
  package var fields: [String] = []

  init(_ method: String, _ url: String) throws(Explanation.Refusal) {
    let read = try Explanation.request("\(method) \(url)", of: "")
    self.method = method
    self.url = url
    isTLS = read.usesTLS
    host = read.host
    port = read.port
    target = read.target
  }

  package var isConnection: Bool { method == "TCP" }
  package var words: String { "\(method) \(url)" }
}
