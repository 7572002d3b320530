import Forward
import Language
import Observability
package import Traffic

/// set_real_ip_from (nginx: ngx_http_realip_module): whose word about a client's address is taken.
///
/// The folder is the whole feature: the directives and what they set here, and what happens to a request in
/// `ClientSearch`. A level without a `set_real_ip_from` has none of it: then nobody's word is taken.
package struct RealIP: FeatureSettings, LocationFeature {
  /// Where the client's address stands.
  enum Source: Sendable, Hashable {
    /// The last line of X-Forwarded-For, and with `real_ip_recursive` also the lines before it.
    case forwardedFor
    /// The first line of this field; the name in lower case.
    case field([UInt8])
    /// The header of `listen … proxy_protocol`.
    case proxyProtocol
  }

  /// The addresses whose word is taken.
  var trusted: [AccessRule.Source] = []
  package var hosts: [HostUse] = []
  var source = source(standardField)
  /// Whether a trusted address in the list lets the next one to its left count.
  var isRecursive = false

  package init() {}

  // MARK: Directives

  package static let chapter = Chapter.realIP
  package static let kinds: Set<TrafficKind> = [.http, .stream]
  static let from = "set_real_ip_from"
  private static let standardField = "X-Real-IP"

  package static let rows: [Row<RealIP>] = [
    .lines(
      from, .everyHTTP.union(.everyStream), .words(1...1, "ADDRESS | CIDR | unix: | NAME"),
      "Peers whose word about the client's address is taken. A name is resolved at start and reload.",
      example: "set_real_ip_from 10.0.0.0/8;", trust: .told
    ) { settings, lines, builder in for line in lines { settings.believe(line, &builder) } },
    .line(
      "real_ip_header", .everyHTTP, .words(1...1, "FIELD | X-Forwarded-For | proxy_protocol"), initial: standardField,
      "Where such a peer names the client. Of X-Forwarded-For the last line counts, of another field the first line. Unlike in nginx, `x-forwarded-for` in any case means X-Forwarded-For, and an address with an empty number, such as `1..2.3`, is none.",
      example: "real_ip_header X-Forwarded-For;", trust: .told
    ) { settings, line, _ in settings.source = source(line.text(0)) },
    .flag(
      "real_ip_recursive", .everyHTTP, \.isRecursive,
      "Takes the last address that isn't trusted itself, through all lines of X-Forwarded-For.",
      example: "real_ip_recursive on;", trust: .told),
  ]

  /// Each of the directives is inherited on its own, as in nginx.
  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> RealIP? {
    var settings = RealIP(level.scope, &builder)
    // As in nginx, connections of `stream` have no other word than the PROXY header.
    if level.isOfStream { settings.source = .proxyProtocol }
    return settings.believed.isEmpty ? nil : settings
  }

  private mutating func believe(_ line: Directive, _ builder: inout SettingsBuilder) {
    let text = line.text(0)
    if text == "unix:" {
      trusted.append(.unix)
    } else if let (source, hasHostBits) = AccessRule.Source.parse(text) {
      trusted.append(source)
      if hasHostBits {
        builder.warning(
          line.place(0), "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
      }
    } else if Self.isHostName(text) {
      hosts.append(HostUse(text, of: Self.from, at: line.place(0)))
    } else {
      builder.error(
        line.place(0), "invalid parameter \"\(text)\"", hint: "an IP address, ADDRESS/BITS, unix: or a host name")
    }
  }

  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    guard Access.decides(level.scope), let line = level.scope.list(from).first(where: { $0.text(0).hasSuffix("/0") })
    else { return }
    builder.warning(
      line.place(0), "everybody's word about the client's address is taken, and \"allow\" or \"deny\" judges by it",
      hint: "name the addresses of your own proxies: a client can claim any address here")
  }

  private static func source(_ name: String) -> Source {
    if name == "proxy_protocol" { return .proxyProtocol }
    let lower = name.lowercased()
    return lower == "x-forwarded-for" ? .forwardedFor : .field(Array(lower.utf8))
  }

  /// Whether the text can be a name; what looks like an address with a fault is none.
  private static func isHostName(_ text: String) -> Bool {
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    return text.utf8.count <= 253 && text.utf8.contains { ($0 | 0x20) &- 97 < 26 }
      && labels.allSatisfy { !$0.isEmpty }
      && text.utf8.allSatisfy { TemplateCompiler.isNameByte($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
  }

  /// Whose word is taken, as `check` says it.
  package var believed: [String] { trusted.map(\.asWritten) + hosts.map(\.name) }

  // MARK: Effect

  package var ways: LocationWays {
    var ways = LocationWays()
    ways.addressesSaidBy = believed
    ways.addressesSaidByAnybody = trusted.contains(where: \.isEverybody)
    return ways
  }

  /// Before TLS, whose word of the PROXY header is taken.
  package var openingPolicy: [(label: String, text: String)] {
    [("client address", "that of the PROXY header, from \(believed.joined(separator: ", ")) (set_real_ip_from)")]
  }

  /// The server block's own counts before any phase: `LiveServer.addressStep`.
  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let search = ClientSearch(self, resolved: makers.generation.hosts)
    if parts.isOfServer { parts.server.addressStep = search } else { parts.steps.preaccess.append(RealIPStep(search)) }
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    found.set(Set(old?.believed ?? []), Set(new?.believed ?? [])) {
      "\($0) may say which address a client has (set_real_ip_from)"
    } removed: {
      "\($0) may no longer say which address a client has"
    }
    if let old, let new, old.source != new.source || old.isRecursive != new.isRecursive {
      found.other("another field says which address a client has (real_ip_header, real_ip_recursive)")
    }
  }
}
