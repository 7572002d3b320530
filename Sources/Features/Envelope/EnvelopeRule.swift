import Crypto
import Envelope
import Forward
import Language
import Observability
import Traffic

/// The directives in effect for a location's envelopes, its own and the inherited ones, before any check.
struct EnvelopeFacts: RowSettings {
  var scope = Scope([], outer: nil)
  /// The line that turns envelopes on or off.
  var line: Directive?
  var isOn = false
  var cipher: Cipher?
  var keys: Directive?
  var macKeys: Directive?
  var macLine: Directive?
  var mac = try? EnvelopeMAC.parse(["hmac-sha256"])
  var macFault: EnvelopeMACError?
  var window: Directive?
  /// Milliseconds; nil: replays are not looked for.
  var replayWindow: UInt64?
  var sizeLine: Directive?
  var maxSize = 1 << 20

  private static let levels = DirectiveContexts.everyHTTP

  static let on = Row<EnvelopeFacts>.line(
    "message_envelope", levels, .flag, initial: "off",
    "Whether request bodies are envelopes. sallyport opens them, and seals the bodies of responses.",
    example: "message_envelope on;", trust: .told
  ) { facts, line, _ in (facts.line, facts.isOn) = (line, Flag(line.text(0)) ?? false) }

  static let rows: [Row<EnvelopeFacts>] = [
    on,
    .choice(
      "message_envelope_cipher", levels,
      ["aes-128-cbc": .aes128CBC, "aes-256-cbc": .aes256CBC, "aes-256-gcm": .aes256GCM], \.cipher,
      "The cipher for bodies.", example: "message_envelope_cipher aes-256-cbc;"),
    .line(
      "message_envelope_key", levels, .words(1...2, "MATERIAL [MATERIAL]"),
      "The cipher's key, as hexadecimal digits or base64: first the current key, then the previous one.",
      example: "message_envelope_key envelope.key;"
    ) { facts, line, _ in facts.keys = line },
    .line(
      "message_envelope_mac", levels, .words(1...Int.max, "hmac-sha256 | hmac-sha1 [payload | fields NAME …] | none"),
      initial: "hmac-sha256 payload",
      "What authenticates a plain body: a MAC over the whole body, or over listed members of a JSON object. `none` is possible only with aes-256-gcm.",
      example: "message_envelope_mac hmac-sha256 payload;"
    ) { facts, line, _ in
      facts.macLine = line
      facts.mac = nil
      do throws(EnvelopeMACError) { facts.mac = try EnvelopeMAC.parse(line.arguments.map(\.text)) } catch {
        facts.macFault = error
      }
    },
    .line(
      "message_envelope_mac_key", levels, .words(1...2, "MATERIAL [MATERIAL]"),
      "The MAC's keys, in the order of the cipher's keys.", example: "message_envelope_mac_key envelope.mac;"
    ) { facts, line, _ in facts.macKeys = line },
    .line(
      "message_envelope_replay_window", levels, .words(1...3, "TIME | off [store=NAME [fail=closed|local]]"),
      initial: "off",
      "How long sallyport remembers IVs; it refuses an envelope with an IV that it remembers. With `store`, all machines with this `shared_store` remember together; while it can't be asked, requests get 503 (`fail=closed`, which needs no saying) or this process alone remembers (`local`).",
      example: "message_envelope_replay_window 5m;"
    ) { facts, line, _ in
      facts.window = line
      facts.replayWindow = Quantity.milliseconds(line.text(0)).flatMap { $0 > 0 ? UInt64($0) : nil }
    },
    .line(
      "message_envelope_max_size", levels, .size, initial: "1m",
      "The maximum size of a request's envelope (otherwise 413), and of a response's body (otherwise 502).",
      example: "message_envelope_max_size 4m;"
    ) { facts, line, _ in
      facts.sizeLine = line
      facts.maxSize = Quantity.size(line.text(0)) ?? facts.maxSize
    },
  ]

  init() {}

  init(_ scope: Scope, _ builder: inout SettingsBuilder) {
    self.scope = scope
    Self.rows.read(scope, into: &self, &builder)
  }

  var fields: [[UInt8]]? { if case .fields(let names) = mac?.scope { names } else { nil } }
}

/// Errors in a location's envelope directives. Each case is one rule.
enum EnvelopeRule: CaseIterable {
  case malformedMAC
  case malformedWindow
  case withoutCipher
  case withoutKey
  case unauthenticatedCipher
  case withoutMACKey
  case keyOfNoMAC
  case unpairedKeys
  case unboundedSize
  case sizeAboveBodyLimit
  case bodyNotPassed
  case fieldSetByHand
  case fieldsUnauthenticated
  case replayOfForgedIV
  case saidWhereOff

  func diagnostics(_ facts: EnvelopeFacts) -> [Diagnostic] {
    if self == .saidWhereOff { return facts.isOn ? [] : saidWhereOff(facts).map { [$0] } ?? [] }
    guard facts.isOn, let line = facts.line else { return [] }
    switch self {
    case .malformedMAC, .malformedWindow, .unboundedSize, .sizeAboveBodyLimit:
      return value(facts).map { [$0] } ?? []
    case .fieldsUnauthenticated, .replayOfForgedIV: return warning(facts).map { [$0] } ?? []
    case .bodyNotPassed, .fieldSetByHand: return beside(facts, line)
    default: return keys(facts, line).map { [$0] } ?? []
    }
  }

  private func error(_ line: Directive, _ message: String, _ hint: String, word: Int? = nil) -> Diagnostic {
    Diagnostic(.error, at: word.map { line.place($0) } ?? line.location, message, hint: hint)
  }

  // MARK: Cipher, MAC and keys

  private func keys(_ facts: EnvelopeFacts, _ line: Directive) -> Diagnostic? {
    switch self {
    case .withoutCipher where facts.cipher == nil:
      return error(
        line, "\"message_envelope on\" without \"message_envelope_cipher\"", "message_envelope_cipher aes-256-gcm;")
    case .withoutKey where facts.keys == nil:
      return error(
        line, "\"message_envelope on\" without \"message_envelope_key\"",
        "message_envelope_key FILE; to create a key: openssl rand -hex \(facts.cipher?.keyCount ?? 32)")
    case .unauthenticatedCipher:
      guard facts.macFault == nil, facts.mac == nil, let cipher = facts.cipher, !cipher.isAuthenticated,
        let mac = facts.macLine
      else { return nil }
      return error(
        mac, "\"message_envelope_mac none\" with \(cipher.rawValue): an attacker could change a sealed message",
        "use aes-256-gcm, or a MAC")
    case .withoutMACKey where facts.mac != nil && facts.macKeys == nil:
      return error(
        line, "\"message_envelope on\" without \"message_envelope_mac_key\"",
        "message_envelope_mac_key FILE; or, with aes-256-gcm, message_envelope_mac none")
    case .keyOfNoMAC:
      guard facts.macFault == nil, facts.mac == nil, let keys = facts.macKeys else { return nil }
      return error(
        keys, "\"message_envelope_mac_key\" beside \"message_envelope_mac none\"", "remove one of the two")
    case .unpairedKeys:
      guard facts.mac != nil, let keys = facts.keys, let macKeys = facts.macKeys,
        keys.arguments.count != macKeys.arguments.count
      else { return nil }
      return error(
        macKeys, "\(macKeys.arguments.count) MAC keys, but \(keys.arguments.count) keys of the cipher",
        "give one for each, the current pair first; the cipher's keys are at \(keys.location)")
    default: return nil
    }
  }

  // MARK: Values

  private func value(_ facts: EnvelopeFacts) -> Diagnostic? {
    switch self {
    case .malformedMAC:
      guard let fault = facts.macFault, let line = facts.macLine else { return nil }
      return error(line, fault.reason, fault.hint, word: fault.word)
    case .malformedWindow:
      guard let line = facts.window, line.text(0).lowercased() != "off",
        Quantity.milliseconds(line.text(0)) == nil
      else { return nil }
      return error(
        line, "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive", "off, or \(Expected.milliseconds)",
        word: 0)
    case .unboundedSize:
      guard let size = facts.sizeLine, !(1...EnvelopeSettings.sizeLimit).contains(facts.maxSize) else { return nil }
      return error(
        size, "invalid value \"\(size.text(0))\" in \"\(size.name)\" directive",
        "from 1 to \(EnvelopeSettings.sizeLimit >> 20)m: sallyport holds a whole message in memory", word: 0)
    case .sizeAboveBodyLimit:
      let limit = ClientBody.sizeLimit(facts.scope)
      guard let size = facts.sizeLine, limit > 0, facts.maxSize > limit else { return nil }
      return Diagnostic(
        .warning, at: size.location, "\"\(size.name)\" is above \"client_max_body_size\", which applies first",
        hint: "client_max_body_size \(size.text(0));")
    default: return nil
    }
  }

  // MARK: Other directives

  private func beside(_ facts: EnvelopeFacts, _ line: Directive) -> [Diagnostic] {
    if self == .bodyNotPassed {
      func fault(_ line: Directive, _ said: String) -> Diagnostic {
        error(line, "\"\(said)\" beside \"message_envelope on\"", "remove one of the two")
      }
      let scope = facts.scope
      let worded = [scope.unpassedBodyLine, ClientBody.filingLine(scope)].compactMap { $0 }
      return worded.map { fault($0, "\($0.name) \($0.text(0))") }
        + (scope.ownBodyLine.map { [fault($0, $0.name)] } ?? [])
    }
    let names: Set = ["content-type", "accept-encoding", "range", "content-encoding"]
    return facts.scope.setFieldLines.filter {
      names.contains($0.text(0).lowercased()) && !$0.text(1).isEmpty
    }.map {
      error(
        $0, "\"\($0.text(0))\" is set here, but message_envelope sets or removes this field",
        "remove one of the two; the other is at \(line.location)")
    }
  }

  private func warning(_ facts: EnvelopeFacts) -> Diagnostic? {
    guard facts.fields != nil, let line = facts.macLine else { return nil }
    if self == .fieldsUnauthenticated {
      let isTagged = facts.cipher?.isAuthenticated ?? false
      let joining = "joining is ambiguous: an attacker can move data from one field to the next"
      if isTagged {
        return Diagnostic(
          .warning, at: line.location,
          "\"fields\": the MAC authenticates only the listed members, and \(joining)",
          hint: "hmac-sha256 payload authenticates the whole body")
      }
      return Diagnostic(
        .warning, at: line.location,
        "\"fields\" with CBC protects no secret: neither the IV nor unlisted members are authenticated, so an "
          + "attacker can learn the content of a recorded message, at least its first block, from the responses to "
          + "changed copies; and \(joining)",
        hint: "message_envelope_cipher aes-256-gcm, or message_envelope_mac hmac-sha256 payload")
    }
    guard let window = facts.window, facts.replayWindow != nil,
      facts.cipher?.isAuthenticated == false
    else { return nil }
    return Diagnostic(
      .warning, at: window.location, "with \"fields\" and CBC the IV is not authenticated: a replay can use another IV",
      hint: "hmac-sha256 payload, or aes-256-gcm")
  }

  private func saidWhereOff(_ facts: EnvelopeFacts) -> Diagnostic? {
    guard let line = facts.scope.directives.first(where: { $0.name.hasPrefix("message_envelope_") }) else { return nil }
    return Diagnostic(
      .warning, at: line.location, "\"\(line.name)\" has no effect here: message_envelope is off",
      hint: "message_envelope on;")
  }
}
