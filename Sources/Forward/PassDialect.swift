package import Language
import Observability
package import Traffic
package import Upstream

/// What differs between the protocols in which sallyport speaks to upstreams.
package struct PassDialect: Sendable {
  /// The protocol, as messages name it.
  package let name: String
  /// What the names of its directives begin with.
  package let prefix: String
  /// How a URL spells each scheme before its `://`, without regard to case; the longer spelling first.
  package var schemes: [(spelling: String, scheme: UpstreamScheme)] = [("https", .https), ("http", .http)]
  /// The scheme of a URL without one; nil: a URL must have one.
  package var standardScheme: UpstreamScheme?
  /// How the line is written whose address must say a port, because the protocol has no default port; nil: it has one.
  package var portForm: String?
  /// The version that all requests have, or the protocol of its own (`UpstreamVersion.wire`); nil: the configuration says it.
  package var version: UpstreamVersion?
  /// Whether the path is the name of a method, and bodies are streams of messages in both directions. Then
  /// sallyport neither collects a body nor changes or compresses one.
  package var callsMethods = false
  /// Fields of responses that clients don't get, beside those that no dialect's clients get. In lower case.
  package var hiddenFields: [String] = []
  /// Fields that requests have unless a line sets a field of that name.
  package var standardFields: [(name: String, value: Template)] = []
  /// The `type` of the health checks that only upstreams of this protocol answer; nil: there is none.
  package var checkType: String?

  package init(name: String, prefix: String) {
    self.name = name
    self.prefix = prefix
  }

  package var needsPort: Bool { portForm != nil }

  /// Whether its messages are those of HTTP. Another dialect has no fields, trailers or interim responses as HTTP has them, so
  /// no signature, envelope or challenge. A feature that needs them refuses the dialect (`SettingsBuilder.refuse`).
  package var speaksHTTP: Bool { if case .wire = version { false } else { true } }

  /// Whether a URL may have a path, which takes the place of the request's.
  package var takesPath: Bool { speaksHTTP && !callsMethods }

  /// What stands before the authority of an upstream in messages.
  package func prefix(_ scheme: UpstreamScheme) -> String {
    let own = speaksHTTP ? nil : schemes.first { $0.scheme == scheme }?.spelling
    return "\(own ?? scheme.rawValue)://"
  }

  /// The scheme that a URL begins with, and how long its spelling is, with `://`. nil: it begins with none of the protocol's.
  package func scheme(of url: some Collection<UInt8>) -> (scheme: UpstreamScheme, count: Int)? {
    for (spelling, scheme) in schemes {
      let prefix = Array("\(spelling)://".utf8)
      if url.count > prefix.count, url.prefix(prefix.count).map({ $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }) == prefix
      {
        return (scheme, prefix.count)
      }
    }
    return standardScheme.map { ($0, 0) }
  }
}

extension SettingsBuilder {
  /// Refuses a line that asks for something which only HTTP has, at a pass of another dialect. `reason`: what the line needs
  /// of HTTP. Returns whether it has.
  package mutating func refuse(_ line: Directive?, at pass: Directive, of dialect: PassDialect, _ reason: String)
    -> Bool
  {
    guard !dialect.speaksHTTP, let line else { return false }
    error(
      pass.location, "\"\(line.name)\" in effect for \"\(pass.name)\": \(reason), which \(dialect.name) doesn't have",
      hint: "write \"\(line.name) off;\" here; it is on at \(line.location)")
    return true
  }
}
