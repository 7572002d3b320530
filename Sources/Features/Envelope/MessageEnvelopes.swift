import Crypto
import Envelope
package import Forward
package import Language
import Observability
package import Traffic

/// message_envelope, which nginx does not have: sallyport opens the bodies of requests, and seals those of responses.
///
/// The folder is the whole feature: the directives here, what they set in `EnvelopeSettings`, what contradicts them in
/// `EnvelopeRule`, and what happens to bodies in `EnvelopeFilter`. What they set is part of a `proxy_pass`: a response is
/// sealed whole, before its head is sent, and no filter of bodies can hold back a head.
package enum MessageEnvelopes: PassFeature {
  package static let chapter = Chapter.envelopes

  package static let directives = EnvelopeFacts.rows.entries

  /// The line that turns envelopes on or off at a level.
  static func line(_ scope: Scope) -> Directive? { EnvelopeFacts.on.line(in: scope) }

  /// Whether envelopes are on at a level, if it has a `proxy_pass`.
  static func isOn(_ scope: Scope) -> Bool { EnvelopeFacts.on.flag(in: scope) ?? false }

  package static func openingLine(_ scope: Scope) -> Directive? { isOn(scope) ? line(scope) : nil }

  package static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    if builder.refuse(openingLine(draft.scope), at: draft.line, of: draft.dialect, "it seals messages of HTTP") {
      return nil
    }
    guard draft.dialect.callsMethods else { return read(draft.scope, draft.line, &builder) }
    if let line = openingLine(draft.scope) {
      builder.error(
        draft.line.location, "\"\(line.name)\" seals whole bodies, and \(draft.dialect.name) sends streams",
        hint: "write \"\(line.name) off;\" here; it is on at \(line.location)")
    }
    return nil
  }

  /// Reads what is in effect for a `proxy_pass`; nil where it is off or invalid.
  private static func read(
    _ scope: Scope, _ pass: Directive, _ builder: inout SettingsBuilder
  ) -> EnvelopeSettings? {
    let facts = EnvelopeFacts(scope, &builder)
    // Each diagnostic appears once, although several locations may inherit the invalid directive.
    for diagnostic in EnvelopeRule.allCases.flatMap({ $0.diagnostics(facts) })
    where !builder.diagnostics.contains(diagnostic) {
      builder.diagnostics.append(diagnostic)
    }
    guard facts.isOn, let cipher = facts.cipher, let suite = try? EnvelopeSuite(cipher, facts.mac),
      facts.macFault == nil, let keys = facts.keys
    else { return nil }
    let cipherKeys = builder.materials(keys), macKeys = facts.macKeys.map { builder.materials($0) } ?? []
    let hasMAC = facts.mac != nil
    func files(_ index: Int) -> EnvelopeSettings.KeyFiles? {
      guard cipherKeys.indices.contains(index), !hasMAC || macKeys.indices.contains(index) else { return nil }
      return .init(cipher: cipherKeys[index], mac: hasMAC ? macKeys[index] : nil)
    }
    guard let current = files(0) else { return nil }
    var settings = EnvelopeSettings(
      suite: suite, current: current, previous: files(1), replayWindow: facts.replayWindow, maxSize: facts.maxSize,
      reloads: scope.reloadsFiles, location: pass.location)
    if let line = facts.window {
      for word in line.arguments.dropFirst() where !["store", "fail"].contains(word.text.splitAtEquals.name) {
        builder.error(
          word.location, "invalid parameter \"\(word.text)\" in \"\(line.name)\"", hint: "TIME store=NAME fail=closed")
      }
      settings.replayStore = StoreUse.read(
        line.arguments.dropFirst(), of: line.name, standard: .closed, allowing: [.closed, .local], &builder)
    }
    return settings
  }

  /// Warns of an envelope in a location without an upstream. A level above may set it for its other locations.
  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let scope = level.scope
    guard isOn(scope), let line = EnvelopeFacts.on.ownLine(in: scope), !UpstreamPass.forwards(scope, builder.features),
      scope.ownLocations.isEmpty
    else { return }
    builder.warning(
      line.location, "\"message_envelope on\" without proxy_pass: sallyport seals only responses of upstreams",
      hint: "use it together with proxy_pass")
  }

  package static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    let old = old[EnvelopeSettings.self], new = new[EnvelopeSettings.self]
    found.flag(
      old == nil, new == nil, opens: "bodies are no longer in message envelopes",
      closes: "bodies must be in message envelopes")
    if let old, let new, old != new { found.other("the message envelope has other settings") }
  }
}
