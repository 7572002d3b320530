import Crypto
import Envelope
package import Language
import Observability

/// message_envelope, which nginx does not have: sallyport opens the bodies of requests, and seals those of responses.
///
/// The folder is the whole feature: the directives here, what they set in `EnvelopeSettings`, what contradicts them in
/// `EnvelopeRule`, and what happens to bodies in `EnvelopeFilter`. What they set is part of a `proxy_pass`: a response is
/// sealed whole, before its head is sent, and no filter of bodies can hold back a head.
package enum MessageEnvelopes: PassFeature {
  package static let chapter = Chapter.envelopes
  private static let name = "message_envelope"
  private static let levels = DirectiveContexts.everyHTTP

  package static let directives: [DirectiveEntry] = [
    .value(
      name, levels, .flag, "off",
      "Whether request bodies are envelopes. sallyport opens them, and seals the bodies of responses.",
      example: "message_envelope on;", trust: .told),
    .value(
      "message_envelope_cipher", levels, .oneOf(["aes-128-cbc", "aes-256-cbc", "aes-256-gcm"]), "",
      "The cipher for bodies.", example: "message_envelope_cipher aes-256-cbc;"),
    .value(
      "message_envelope_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
      "The cipher's key, as hexadecimal digits or base64: first the current key, then the previous one.",
      example: "message_envelope_key envelope.key;"),
    .value(
      "message_envelope_mac", levels, .words(1...Int.max, "hmac-sha256 | hmac-sha1 [payload | fields NAME …] | none"),
      "hmac-sha256 payload",
      "What authenticates a plain body: a MAC over the whole body, or over listed members of a JSON object. `none` is possible only with aes-256-gcm.",
      example: "message_envelope_mac hmac-sha256 payload;"),
    .value(
      "message_envelope_mac_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
      "The MAC's keys, in the order of the cipher's keys.", example: "message_envelope_mac_key envelope.mac;"),
    .value(
      "message_envelope_replay_window", levels, .words(1...3, "TIME | off [store=NAME [fail=closed|local]]"), "off",
      "How long sallyport remembers IVs; it refuses an envelope with an IV that it remembers. With `store`, all machines with this `shared_store` remember together; while it can't be asked, requests get 503 (`fail=closed`, which needs no saying) or this process alone remembers (`local`).",
      example: "message_envelope_replay_window 5m;"),
    .value(
      "message_envelope_max_size", levels, .size, "1m",
      "The maximum size of a request's envelope (otherwise 413), and of a response's body (otherwise 502).",
      example: "message_envelope_max_size 4m;"),
  ]

  /// The line that turns envelopes on or off at a level.
  static func line(_ scope: Scope) -> Directive? { scope.value(name) }

  /// Whether envelopes are on at a level, if it has a `proxy_pass`.
  static func isOn(_ scope: Scope) -> Bool { scope.flag(name) ?? false }

  package static func openingLine(_ scope: Scope) -> Directive? { isOn(scope) ? line(scope) : nil }

  package static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    guard draft.dialect.callsMethods else { return read(draft.scope, draft.line, &builder) }
    if let line = openingLine(draft.scope) {
      builder.error(
        draft.line.location, "\"\(name)\" seals whole bodies, and \(draft.dialect.name) sends streams",
        hint: "write \"\(name) off;\" here; it is on at \(line.location)")
    }
    return nil
  }

  /// Reads what is in effect for a `proxy_pass`; nil where it is off or invalid.
  private static func read(
    _ scope: Scope, _ pass: Directive, _ builder: inout SettingsBuilder
  ) -> EnvelopeSettings? {
    var mac: EnvelopeMAC?
    var macFault: EnvelopeMACError?
    do throws(EnvelopeMACError) {
      mac = try EnvelopeMAC.parse(scope.value("message_envelope_mac")?.arguments.map(\.text) ?? ["hmac-sha256"])
    } catch { macFault = error }
    let facts = EnvelopeFacts(scope, pass, mac: mac, macFault: macFault)
    // Each diagnostic appears once, although several locations may inherit the invalid directive.
    for diagnostic in EnvelopeRule.allCases.flatMap({ $0.diagnostics(facts) })
    where !builder.diagnostics.contains(diagnostic) {
      builder.diagnostics.append(diagnostic)
    }
    guard facts.isOn, let cipher = facts.cipher, let suite = try? EnvelopeSuite(cipher, mac), macFault == nil,
      let keys = facts.keys
    else { return nil }
    let cipherKeys = builder.materials(keys), macKeys = facts.macKeys.map { builder.materials($0) } ?? []
    func files(_ index: Int) -> EnvelopeSettings.KeyFiles? {
      guard cipherKeys.indices.contains(index), mac == nil || macKeys.indices.contains(index) else { return nil }
      return .init(cipher: cipherKeys[index], mac: mac == nil ? nil : macKeys[index])
    }
    guard let current = files(0) else { return nil }
    var settings = EnvelopeSettings(
      suite: suite, current: current, previous: files(1), replayWindow: facts.replayWindow, maxSize: facts.maxSize,
      reloads: scope.reloadsFiles, location: pass.location)
    if let line = scope.value("message_envelope_replay_window") {
      for word in line.arguments.dropFirst() where !["store", "fail"].contains(word.text.splitAtEquals.name) {
        builder.error(
          word.location, "invalid parameter \"\(word.text)\" in \"\(line.name)\"", hint: "TIME store=NAME fail=closed")
      }
      settings.replayStore = builder.storeUse(
        line.arguments.dropFirst(), of: line.name, standard: .closed, allowing: [.closed, .local])
    }
    return settings
  }

  /// Warns of an envelope in a location without an upstream. A level above may set it for its other locations.
  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let scope = level.scope
    guard isOn(scope), let line = scope.own(name).first, !UpstreamPass.forwards(scope), scope.ownLocations.isEmpty
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
