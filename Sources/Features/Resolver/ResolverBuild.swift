import DNS
import Observability
import Transport
import Upstream
import Language

extension SettingsBuilder {
  /// Builds `resolver` and `resolver_timeout`. Each is inherited on its own, as in nginx.
  mutating func nameResolution(_ scope: Scope) -> NameResolutionSettings? {
    guard let line = scope.value("resolver"), let resolver = resolver(line) else { return nil }
    return NameResolutionSettings(resolver: resolver, timeout: scope.milliseconds("resolver_timeout") ?? 30_000)
  }

  /// Builds a line once, however many levels inherit it.
  private mutating func resolver(_ line: Directive) -> ResolverSettings? {
    if let built = resolvers[line.location] { return built }
    let built = parsedResolver(line)
    resolvers[line.location] = .some(built)
    return built
  }

  private mutating func parsedResolver(_ line: Directive) -> ResolverSettings? {
    var servers: [ResolverSettings.Server] = []
    var policy = DNSPolicy()
    var isOff = (ipv4: false, ipv6: false)
    let before = diagnostics.count
    for word in line.arguments {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("valid", let value?):
        guard let seconds = Quantity.seconds(value) else {
          error(word.location, "invalid parameter: \"\(word.text)\"", hint: "it must be \(Expected.seconds)")
          continue
        }
        policy.valid = seconds
      case ("ipv4", let value?): isOff.ipv4 = isOffParameter(word, value)
      case ("ipv6", let value?): isOff.ipv6 = isOffParameter(word, value)
      case ("status_zone", _?):
        error(
          word.location, "`status_zone` belongs to nginx's commercial edition, and is not supported here",
          hint: "leave it out")
      default:
        if let server = nameServer(word) { servers.append(server) }
      }
    }
    switch isOff {
    case (true, true):
      error(line.location, "\"ipv4\" and \"ipv6\" cannot both be \"off\"", hint: "leave one of them out")
    case (true, false): policy.families = .ipv6
    case (false, true): policy.families = .ipv4
    case (false, false): break
    }
    guard diagnostics.count == before else { return nil }
    guard !servers.isEmpty else {
      error(line.location, "no name servers defined", hint: "resolver ADDRESS[:PORT] …;")
      return nil
    }
    return ResolverSettings(servers: servers, policy: policy)
  }

  private mutating func isOffParameter(_ word: Word, _ value: String) -> Bool {
    if value != "on", value != "off" {
      error(word.location, "invalid parameter: \"\(word.text)\"", hint: "on or off")
    }
    return value == "off"
  }

  private mutating func nameServer(_ word: Word) -> ResolverSettings.Server? {
    do {
      let address = try Authority(parsing: word.text).upstreamAddress(defaultPort: 53)
      if case .address(.unix) = address {
        error(word.location, "invalid name server \"\(word.text)\"", hint: "ADDRESS[:PORT]")
        return nil
      }
      return ResolverSettings.Server(address: address, location: word.location)
    } catch {
      self.error(word.location, "\(error.reason) in resolver \"\(word.text)\"", hint: error.hint)
      return nil
    }
  }
}
