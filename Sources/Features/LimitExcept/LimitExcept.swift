import Bytes
import Forward
import HTTP
package import Language
import Observability
import Traffic

/// limit_except (nginx: ngx_http_core_module): other settings for requests with other methods than the listed ones.
struct LimitExcept: LocationFeature {
  /// Upper-case names.
  var methods: [String]
  /// The settings for requests with another method.
  var location: LocationSettings

  // MARK: Directives

  static let chapter = Chapter.rewrite

  private static let line = DirectiveEntry.local(
    "limit_except", .location, .block(1...Int.max, "METHOD …"),
    "Settings for requests with other methods. `GET` includes `HEAD`. As in nginx, such a request doesn't run the location's `rewrite`, `return`, `if` and `set`.",
    example: "limit_except GET HEAD { deny all; }", trust: .told)

  static let directives = [line]

  private static let known = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK",
    "UNLOCK", "PATCH",
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> LimitExcept? {
    guard let line = line.ownLine(in: level.scope) else { return nil }
    var names: [String] = []
    for word in line.arguments {
      guard known.contains(word.text.uppercased()) else {
        builder.error(
          word.location, "invalid method \"\(word.text)\"", hint: "one of \(known.joined(separator: ", "))")
        continue
      }
      names.append(word.text.uppercased())
    }
    if names.contains("GET") { names.append("HEAD") }
    let inner = Level.conditional(Scope(line.block ?? [], outer: level.scope), .limitExcept, outer: level)
    return LimitExcept(methods: names, location: builder.location(inner, at: line.location))
  }

  // MARK: Effect

  var conditional: [LocationSettings] { [location] }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let limit = MethodLimit(methods)
    parts.entrance = limit
    parts.blocks.append(LocationBlock(settings: location) { limit.location = $0 })
  }

  var entryRule: EntryRule? {
    let inner = EntryRules(of: location)
    return EntryRule(text: "limit_except \(words) {\(inner.text)}", effect: inner.canRefuse ? .judges : .none)
  }

  var ways: LocationWays {
    let words = words, methods = methods
    func condition(_ words: String, isListed: Bool) -> AccessCondition {
      let example = isListed ? methods.first : Self.known.first { !methods.contains($0) }
      return AccessCondition(
        .form, .entry, words, at: location.location, examples: example.map { [.method($0)] } ?? []
      ) { trial in
        guard let method = trial.method else { return .unknown }
        return methods.contains(method) == isListed ? .admits : .refuses
      }
    }
    return LocationWays(
      conditions: [condition("a method of \(words)", isListed: true)],
      leads: [
        RequestLead(
          .entrance, to: .block(location), "limit_except \(words)", at: location.location,
          if: condition("another method than \(words)", isListed: false))
      ])
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let (before, after) = (old?.words, new?.words)
    if before == after { return }
    found.other(after.map { "limit_except lists \($0)" } ?? "limit_except is gone (was \(before ?? ""))")
  }

  private var words: String { methods.sorted().joined(separator: " ") }
}

/// `limit_except` in one worker: where a request that enters its location goes.
final class MethodLimit: LocationEntrance {
  private let methods: [[UInt8]]
  /// For requests with another method; set when it is compiled.
  fileprivate(set) var location: LiveLocation?

  init(_ methods: [String]) { self.methods = methods.map { Array($0.utf8) } }

  override func other(for exchange: Exchange) -> LiveLocation? { allows(exchange) ? nil : location }

  /// Whether the request's method is listed. An error page is fetched with GET, or with HEAD for a HEAD request.
  private func allows(_ exchange: Exchange) -> Bool {
    let isOwn = exchange.redirection.keepsBody || exchange.head.method == .head
    let method = isOwn ? Array(exchange.head.bytes.readable[exchange.head.methodRange]) : Array("GET".utf8)
    return methods.contains(method)
  }
}

extension DirectiveContexts {
  package static let limitExcept = DirectiveContexts(block: "limit_except", in: .location)
}
