import Bytes
import HTTP
import Language
import Observability
import Patterns
import Traffic

/// Which clients get gzip, as the core of nginx decides it for all of its modules: by `gzip_http_version`, `gzip_proxied`,
/// `gzip_disable` and the client's own fields. It is asked before a response is compressed, before a file is sent that was
/// compressed earlier, and before a compressed response is decompressed.
struct GzipClients: RowSettings {
  /// What `gzip_proxied` names: responses to requests that came through another proxy (Via) are compressed if one of
  /// these holds.
  struct Proxied: OptionSet, Sendable, Hashable {
    let rawValue: UInt16
    init(rawValue: UInt16) { self.rawValue = rawValue }
    static let expired = Proxied(rawValue: 1)
    static let noCache = Proxied(rawValue: 2)
    static let noStore = Proxied(rawValue: 4)
    static let `private` = Proxied(rawValue: 8)
    static let noLastModified = Proxied(rawValue: 16)
    static let noETag = Proxied(rawValue: 32)
    static let auth = Proxied(rawValue: 64)
    static let any = Proxied(rawValue: 128)
  }

  /// `gzip_http_version 1.0`
  var takesHTTP10 = false
  /// Empty: `off`.
  var proxied: Proxied = []
  var sendsVary = false
  /// `gzip_disable`, by User-Agent.
  var disabledAgents: [RegularExpression] = []
  /// `gzip_disable msie6`
  var disablesOldExplorer = false

  // MARK: Directives

  static let rows: [Row<GzipClients>] = [
    .choice(
      "gzip_http_version", .everyHTTP, ["1.0": true, "1.1": false], \.takesHTTP10, "The least version of requests.",
      example: "gzip_http_version 1.0;"),
    .line(
      "gzip_proxied", .everyHTTP, .someOf(["off"] + conditions.map(\.key)), initial: "off",
      "When responses to requests with a Via field are compressed.", example: "gzip_proxied any;"
    ) { clients, line, builder in
      let words = line.arguments.map { $0.text.lowercased() }
      if words.contains("off"), words.count > 1 {
        builder.error(
          line.location, "\"off\" beside other words in \"gzip_proxied\"", hint: "off alone, or the other words")
      }
      clients.proxied = conditions.reduce(into: []) { if words.contains($1.key) { $0.formUnion($1.value) } }
    },
    .flag(
      "gzip_vary", .everyHTTP, \.sendsVary, "Whether such responses have `Vary: Accept-Encoding`.",
      example: "gzip_vary on;", trust: .none),
    .words(
      "gzip_disable", .everyHTTP, usage: "REGEX … | msie6",
      "User-Agents that get no compressed responses.", example: "gzip_disable msie6;"
    ) { clients, word, builder in
      if word.text == "msie6" { return clients.disablesOldExplorer = true }
      do throws(PatternError) {
        clients.disabledAgents.append(try RegularExpression(word.text, caseless: true))
      } catch {
        builder.error(word.location, "invalid regular expression \"\(word.text)\": \(error)")
      }
    },
  ]

  private static let conditions: KeyValuePairs<String, Proxied> = [
    "expired": .expired, "no-cache": .noCache, "no-store": .noStore, "private": .private,
    "no_last_modified": .noLastModified, "no_etag": .noETag, "auth": .auth, "any": .any,
  ]

  // MARK: Effect

  /// Whether the client gets gzip. `isFile`: the response comes from a file. `beforeHead`: the head isn't built yet, so none
  /// of its fields counts.
  func accept(_ exchange: Exchange, isFile: Bool, beforeHead: Bool = false) -> Bool {
    let head = exchange.head, bytes = head.bytes.readable
    guard let field = head.first(.acceptEncoding), GzipAcceptance.accepts(bytes[field.value]) else { return false }
    if disablesOldExplorer || !disabledAgents.isEmpty, isDisabled(exchange) { return false }
    if head.version == .http10 && !takesHTTP10 { return false }
    return head.first(.via) == nil || isForProxies(exchange, isFile: isFile, beforeHead: beforeHead)
  }

  /// `gzip_vary`: says that the response depends on what the client accepts.
  func addVary(to outgoing: OutgoingResponseHead) {
    if sendsVary, !outgoing.list("vary", has: "accept-encoding") { outgoing.add("Vary", "Accept-Encoding") }
  }

  /// `gzip_proxied`. As in nginx, the Last-Modified of a file is not one that `no_last_modified` asks for.
  private func isForProxies(_ exchange: Exchange, isFile: Bool, beforeHead: Bool) -> Bool {
    if proxied.isEmpty { return false }
    if proxied.contains(.any) { return true }
    if proxied.contains(.auth), exchange.head.present.contains(.authorization) { return true }
    if beforeHead { return true }
    let outgoing = exchange.response
    let expires = outgoing.text(of: "expires")
    if !expires.isEmpty {
      guard proxied.contains(.expired), let end = expires.withUnsafeBytes({ HTTPDate.parse($0) }) else { return false }
      let date = outgoing.text(of: "date")
      guard let now = date.withUnsafeBytes({ HTTPDate.parse($0) }) else { return false }
      return end < now
    }
    if !outgoing.text(of: "cache_control").isEmpty {
      func says(_ directive: String) -> Bool { outgoing.list("cache_control", has: directive) }
      return proxied.contains(.noCache) && says("no-cache") || proxied.contains(.noStore) && says("no-store")
        || proxied.contains(.private) && says("private")
    }
    if proxied.contains(.noLastModified), !isFile, !outgoing.text(of: "last_modified").isEmpty { return false }
    return !proxied.contains(.noETag) || outgoing.text(of: "etag").isEmpty
  }

  /// `gzip_disable`
  private func isDisabled(_ exchange: Exchange) -> Bool {
    guard let field = exchange.head.first(.userAgent) else { return false }
    let agent = Array(exchange.head.bytes.readable[field.value])
    if disablesOldExplorer, Self.isOldExplorer(agent) { return true }
    return disabledAgents.contains { pattern in
      var captures = Captures()
      let outcome = agent.withUnsafeBytes {
        pattern.match($0, scratch: exchange.worker.patternScratch, into: &captures)
      }
      return outcome != .noMatch
    }
  }

  /// Internet Explorer 4 to 6, but not 6 with Service Pack 2.
  static func isOldExplorer(_ agent: [UInt8]) -> Bool {
    guard let start = agent.firstRange(of: Array("MSIE ".utf8))?.upperBound, agent.count > start + 2,
      agent[start + 1] == 0x2E, agent.firstRange(of: Array("Opera".utf8)) == nil
    else { return false }
    switch agent[start] {
    case 0x34, 0x35: return true
    case 0x36: return agent.firstRange(of: Array("SV1".utf8)) == nil
    default: return false
    }
  }
}
