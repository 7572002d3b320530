import Bytes
import Forward
import HTTP
import Language
import Observability
import Patterns
import Traffic

/// valid_referers (nginx: ngx_http_referer_module): which values of Referer the variable `$invalid_referer` admits.
struct Referers: LocationFeature {
  /// `none`: a request without Referer.
  var allowsNone = false
  /// `blocked`: a Referer that doesn't begin with http:// or https://.
  var allowsBlocked = false
  /// The path that a Referer must begin with, or nil for any, by lower-case host.
  var names = NameTable<[UInt8]?>()
  /// Against the host alone: the regular expressions of `server_names`.
  var namePatterns: [RegularExpression] = []
  /// Against the Referer without its scheme.
  var patterns: [RegularExpression] = []

  // MARK: Directives

  static let chapter = Chapter.rewrite

  private static let row = DirectiveEntry.list(
    "valid_referers", [.server, .location],
    .words(1...Int.max, "none | blocked | server_names | NAME[PATH] | ~REGEX …"), "",
    "The Referer values for which `$invalid_referer` is empty.",
    example: "valid_referers server_names *.example.com;")

  static let directives: [DirectiveEntry] = [
    row,
    .inert("referer_hash_bucket_size", [.server, .location], because: "the tables grow as needed"),
    .inert("referer_hash_max_size", [.server, .location], because: "the tables grow as needed"),
  ]

  static let variables = [
    FeatureVariable("invalid_referer", "`1` for a Referer that `valid_referers` doesn't name; otherwise empty.") {
      exchange, output in
      guard let referers = exchange.location.object(LiveReferers.self) else { return }
      if !referers.admit(exchange) { output.append(0x31) }
    }
  ]

  static let definitions: [String: Definition] = [
    row.name: { directive, defined in
      for word in directive.arguments where word.text.hasPrefix("~") {
        defined.compileUnnamed(String(word.text.dropFirst()), at: word, what: "referer")
      }
    }
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Referers? {
    let lines = row.lines(in: level.scope)
    guard let first = lines.first else { return nil }
    var referers = Referers()
    var names = HostNames<[UInt8]?>()
    for word in lines.flatMap(\.arguments) {
      switch word.text {
      case "none": referers.allowsNone = true
      case "blocked": referers.allowsBlocked = true
      case "server_names":
        let servers = ServerNames.words(level.scope)
        for name in servers where name.text.hasPrefix("~") {
          if let pattern = builder.variables.pattern(at: name) { referers.namePatterns.append(pattern) }
        }
        for name in servers where !name.text.hasPrefix("~") {
          _ = names.add(name.text.lowercased(), nil, areWild: true)
        }
      case let text where text.hasPrefix("~"):
        if let pattern = builder.variables.pattern(at: word) { referers.patterns.append(pattern) }
      case let text:
        let host = text.prefix { $0 != "/" }
        let path = text.dropFirst(host.count)
        if let fault = names.add(host.lowercased(), path.isEmpty ? nil : Array(path.utf8), areWild: true) {
          builder.error(
            word.location, "\(fault.rawValue) \"\(text)\"", hint: "a host name, *.NAME or NAME.*, and a path after it")
        }
      }
    }
    referers.names = names.table
    // As in nginx, a server block without a name has `server_names` all the same.
    let hasServerNames = lines.flatMap(\.arguments).contains { $0.text == "server_names" }
    if names.isEmpty && referers.patterns.isEmpty && referers.namePatterns.isEmpty && !hasServerNames {
      builder.error(
        first.location,
        "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer",
        hint: "name a host: valid_referers none blocked server_names;")
    }
    return referers
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let words = level.scope.own(row.name).flatMap(\.arguments)
    guard let none = words.first(where: { $0.text == "none" }) else { return }
    // Who only keeps other sites from showing the files wants it so.
    let isOfFiles = !builder.features.hasContent(level.scope) && !level.scope.hasInnerLevels
    builder.diagnostics.append(
      Diagnostic(
        isOfFiles ? .notice : .warning, at: none.location,
        "\"valid_referers none\" admits every request without Referer, and any client can leave it out",
        hint: "leave out \"none\", and keep nobody out by Referer alone: a client can also invent one"))
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.objects.append(LiveReferers(self)) }
}

/// `valid_referers` of a location in one worker.
final class LiveReferers {
  private let settings: Referers
  private static let longestName = 256
  private static let field = Array("referer".utf8)

  init(_ settings: Referers) { self.settings = settings }

  func admit(_ exchange: Exchange) -> Bool {
    let bytes = exchange.head.bytes.readable
    let referer = Self.field.withUnsafeBytes { exchange.head.value(named: $0) }.map { Array(bytes[$0]) }
    return admit(referer, scratch: exchange.worker.patternScratch)
  }

  /// Whether the request's Referer is valid. Where a regular expression reaches its limit, it is not.
  func admit(_ referer: [UInt8]?, scratch: RegularExpression.Scratch) -> Bool {
    guard let referer else { return settings.allowsNone }
    // nginx's shortest referer, "http://i.ru".
    guard referer.count >= 11, let scheme = schemeLength(referer) else { return settings.allowsBlocked }
    let rest = referer[scheme...]
    let host = rest.prefix { $0 != 0x2F && $0 != 0x3A }
    guard host.count <= Self.longestName else { return false }
    let name = host.map(ASCII.lower)
    if let path = settings.names.find(name) {
      return path.map { rest[host.endIndex...].drop { $0 != 0x2F }.starts(with: $0) } ?? true
    }
    return settings.namePatterns.contains { matches($0, name, scratch) }
      || settings.patterns.contains { matches($0, Array(rest), scratch) }
  }

  private func matches(_ pattern: RegularExpression, _ text: [UInt8], _ scratch: RegularExpression.Scratch) -> Bool {
    var captures = Captures()
    return text.withUnsafeBytes { pattern.match($0, scratch: scratch, into: &captures) } == .match
  }

  private func schemeLength(_ referer: [UInt8]) -> Int? {
    ["http://", "https://"].map { Array($0.utf8) }
      .first { referer.count >= $0.count && referer.prefix($0.count).map(ASCII.lower) == $0 }?.count
  }
}
