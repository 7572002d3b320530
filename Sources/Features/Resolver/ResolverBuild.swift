import DNS
import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream

extension NameResolutionSettings {
  private struct Lines: RowSettings {
    var resolver: ResolverSettings?
    var timeout = 30_000
  }

  private static let contexts =
    DirectiveContexts.everyHTTP.union(.upstream).union(.everyStream).union(.streamUpstream)

  static let directives = rows.entries
  private static let rows: [Row<Lines>] = [
    .line(
      "resolver", contexts,
      .words(1...Int.max, "ADDRESS[:PORT] … [valid=TIME] [ipv4=on|off] [ipv6=on|off]"),
      initial: "the system's resolver",
      "The DNS servers that resolve the name in a `proxy_pass` with variables, and of `server … resolve`. An answer counts for its TTL, at least a"
        + " second and at most a day, or for the time of `valid`. Without `resolver`, sallyport asks the system (nginx:"
        + " an error), and keeps the answer for 30 seconds.", example: "resolver 127.0.0.1 valid=30s;"
    ) { $0.resolver = ResolverSettings.read($1, &$2) },
    .milliseconds(
      "resolver_timeout", contexts, \.timeout,
      "How long a request waits for `resolver`; afterwards, the response is 502.", example: "resolver_timeout 5s;"),
  ]

  /// What a level says. Each line is inherited on its own, as in nginx.
  static func read(_ scope: Scope, _ builder: inout SettingsBuilder) -> Self? {
    let lines: Lines = rows.read(scope, &builder)
    return lines.resolver.map { Self(resolver: $0, timeout: lines.timeout) }
  }
}

extension ResolverSettings {
  /// Builds a line once, however many levels inherit it.
  fileprivate static func read(_ line: Directive, _ builder: inout SettingsBuilder) -> Self? {
    if let built = builder.resolvers[line.location] { return built }
    let built = parsed(line, &builder)
    builder.resolvers[line.location] = .some(built)
    return built
  }

  private static func parsed(_ line: Directive, _ builder: inout SettingsBuilder) -> Self? {
    var servers: [Server] = []
    var policy = DNSPolicy()
    var isOff = (ipv4: false, ipv6: false)
    let before = builder.diagnostics.count
    for word in line.arguments {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("valid", let value?):
        guard let seconds = Quantity.seconds(value) else {
          builder.error(word.location, "invalid parameter: \"\(word.text)\"", hint: "it must be \(Expected.seconds)")
          continue
        }
        policy.valid = seconds
      case ("ipv4", let value?): isOff.ipv4 = isOffParameter(word, value, &builder)
      case ("ipv6", let value?): isOff.ipv6 = isOffParameter(word, value, &builder)
      case ("status_zone", _?):
        builder.error(
          word.location, "`status_zone` belongs to nginx's commercial edition, and is not supported here",
          hint: "leave it out")
      default:
        if let server = nameServer(word, &builder) { servers.append(server) }
      }
    }
    switch isOff {
    case (true, true):
      builder.error(line.location, "\"ipv4\" and \"ipv6\" cannot both be \"off\"", hint: "leave one of them out")
    case (true, false): policy.families = .ipv6
    case (false, true): policy.families = .ipv4
    case (false, false): break
    }
    guard builder.diagnostics.count == before else { return nil }
    guard !servers.isEmpty else {
      builder.error(line.location, "no name servers defined", hint: "resolver ADDRESS[:PORT] …;")
      return nil
    }
    return Self(servers: servers, policy: policy)
  }

  private static func isOffParameter(_ word: Word, _ value: String, _ builder: inout SettingsBuilder) -> Bool {
    if value != "on", value != "off" {
      builder.error(word.location, "invalid parameter: \"\(word.text)\"", hint: "on or off")
    }
    return value == "off"
  }

  private static func nameServer(_ word: Word, _ builder: inout SettingsBuilder) -> Server? {
    do {
      let address = try Authority(parsing: word.text).upstreamAddress(defaultPort: 53)
      if case .address(.unix) = address {
        builder.error(word.location, "invalid name server \"\(word.text)\"", hint: "ADDRESS[:PORT]")
        return nil
      }
      return Server(address: address, location: word.location)
    } catch {
      builder.error(word.location, "\(error.reason) in resolver \"\(word.text)\"", hint: error.hint)
      return nil
    }
  }
}
