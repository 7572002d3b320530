import Forward
import HTTP
import Language
import Observability
package import Traffic

extension StickySettings {
  static func read(_ line: Directive, of group: String, _ builder: inout SettingsBuilder) -> Self? {
    switch line.text(0) {
    case "cookie": return cookie(line, &builder).map { .cookie($0) }
    case "route": return .route(line.arguments.dropFirst().compactMap { variable($0, $0.text, &builder) })
    case "learn": return learned(line, of: group, &builder).map { .learn($0) }
    default:
      builder.error(line.place(0), "unknown parameter \"\(line.text(0))\"", hint: "cookie, route or learn")
      return nil
    }
  }

  /// The template of one variable, `$name`.
  private static func variable(_ word: Word, _ text: String, _ builder: inout SettingsBuilder) -> Template? {
    let template = builder.template(Word(text, at: word.location, quoted: word.quoted))
    guard template.parts.count == 1, template.constant == nil else {
      builder.error(
        word.location, "invalid variable name \"\(text)\"", hint: "a variable alone, such as $cookie_session")
      return nil
    }
    return template
  }

  private static func cookie(_ line: Directive, _ builder: inout SettingsBuilder) -> StickyCookieSettings? {
    let name = Array(line.text(1).utf8)
    guard !name.isEmpty, name.allSatisfy(isOfToken) else {
      builder.error(line.place(1), "invalid cookie name \"\(line.text(1))\"", hint: "letters, digits, \"-\" and \"_\"")
      return nil
    }
    var settings = StickyCookieSettings(name: name)
    var seen: Set<String> = []
    for word in line.arguments.dropFirst(2) {
      let (parameter, value) = word.text.splitAtEquals
      guard seen.insert(parameter).inserted else {
        builder.error(word.location, "parameter \"\(parameter)\" is duplicate", hint: "write it once")
        continue
      }
      switch (parameter, value) {
      case ("httponly", nil): settings.isHTTPOnly = true
      case ("secure", nil): settings.isSecure = true
      case ("expires", "max"?): settings.lifetime = .longest
      case ("expires", let value?):
        if let seconds = Quantity.seconds(value) {
          settings.lifetime = .seconds(seconds)
        } else {
          builder.error(word.location, "invalid \"expires\" parameter value", hint: "max, or \(Expected.seconds)")
        }
      case ("domain", let value?) where !value.isEmpty:
        settings.domain = builder.template(Word(value, at: word.location, quoted: word.quoted))
      case ("path", let value?) where !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x3B }:
        settings.path = Array(value.utf8)
      case ("samesite", let value?):
        let template = builder.template(Word(value, at: word.location, quoted: word.quoted))
        if let constant = template.constant,
          !["strict", "lax", "none"].contains(String(decoding: constant, as: UTF8.self).lowercased())
        {
          builder.error(word.location, "invalid \"samesite\" parameter value", hint: "strict, lax or none")
        }
        settings.sameSite = template
      default:
        builder.error(
          word.location, "unknown parameter \"\(word.text)\"",
          hint: "expires=TIME, domain=DOMAIN, httponly, samesite=strict, secure or path=PATH")
      }
    }
    return settings
  }

  private static func learned(_ line: Directive, of group: String, _ builder: inout SettingsBuilder)
    -> StickyLearnSettings?
  {
    var learn = StickyLearnSettings(creates: [], lookups: [], zone: "", size: 0, timeout: 600_000, isEarly: false)
    for word in line.arguments.dropFirst() {
      let (parameter, value) = word.text.splitAtEquals
      switch (parameter, value) {
      case ("create", let value?): if let variable = variable(word, value, &builder) { learn.creates.append(variable) }
      case ("lookup", let value?): if let variable = variable(word, value, &builder) { learn.lookups.append(variable) }
      case ("header", nil): learn.isEarly = true
      case ("timeout", let value?):
        if let time = Quantity.milliseconds(value), time > 0 {
          learn.timeout = time
        } else {
          builder.error(word.location, "invalid timeout \"\(word.text)\"", hint: "above 0; \(Expected.milliseconds)")
        }
      case ("zone", _):
        guard learn.zone.isEmpty, let place = LimitZone.place(word, &builder) else { continue }
        (learn.zone, learn.size) = place
      default:
        builder.error(
          word.location, "unknown parameter \"\(word.text)\"",
          hint: "create=$VARIABLE, lookup=$VARIABLE, zone=NAME:SIZE, timeout=TIME or header")
      }
    }
    for (name, isMissing) in [
      ("lookup", learn.lookups.isEmpty), ("create", learn.creates.isEmpty), ("zone", learn.zone.isEmpty),
    ] where isMissing {
      builder.error(
        line.location, "\"\(name)\" parameter is not specified",
        hint: "sticky learn create=$upstream_cookie_session lookup=$cookie_session zone=sessions:1m;")
      return nil
    }
    if let other = builder[Sticky.Block.self].zones[learn.zone] {
      builder.error(
        line.location, "sticky zone \"\(learn.zone)\" is already used in upstream \"\(other)\"",
        hint: "use another name")
    }
    builder[Sticky.Block.self].zones[learn.zone] = group
    return learn
  }

  /// The bytes of a token (RFC 9110 §5.6.2) that cookies of all browsers can have.
  static func isOfToken(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 0x61 < 26 || byte &- 0x30 < 10 || [0x2D, 0x2E, 0x5F, 0x7E].contains(byte)
  }
}

/// `sticky` (nginx: ngx_http_upstream_sticky_module)
enum Sticky: Feature {
  static let name = "sticky"

  /// Zones of `sticky learn`, with the group that has each.
  struct Block: BlockPart {
    var zones: [String: String] = [:]
  }

  static let chapter = Chapter.upstreams

  static let directives: [DirectiveEntry] = [
    .local(
      "sticky", .upstream,
      .words(
        2...Int.max,
        "cookie NAME [expires=TIME|max] [domain=DOMAIN] [httponly] [samesite=strict|lax|none] [secure] [path=PATH]"
          + " | route $VARIABLE … | learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE [timeout=TIME] [header]"),
      "",
      "Binds a client to one server. A server that can't be used is replaced by one of the method's. A megabyte of a"
        + " `learn` zone holds about 4,000 sessions; a full zone forgets the one used least recently.",
      example: "sticky cookie srv_id expires=1h path=/;")
  ]
}

/// How requests are bound to a server (nginx: `sticky`).
package enum StickySettings: Sendable, Hashable {
  /// `sticky cookie`: the response tells the client its server.
  case cookie(StickyCookieSettings)
  /// `sticky route`: the first variable with a value names the server.
  case route([Template])
  /// `sticky learn`: sallyport remembers the servers of sessions.
  case learn(StickyLearnSettings)
}

/// The cookie of `sticky cookie`.
package struct StickyCookieSettings: Sendable, Hashable {
  /// `expires=`: how long the client keeps the cookie.
  package enum Lifetime: Sendable, Hashable {
    case longest
    case seconds(Int)
  }

  package var name: [UInt8]
  /// nil: until the client's session ends.
  package var lifetime: Lifetime?
  package var domain: Template?
  package var path: [UInt8]?
  package var isHTTPOnly = false
  package var isSecure = false
  package var sameSite: Template?

  package init(name: [UInt8]) { self.name = name }
}

/// `sticky learn`
package struct StickyLearnSettings: Sendable, Hashable {
  /// The first with a value names a new session.
  package var creates: [Template]
  /// The first with a value names the session of a request.
  package var lookups: [Template]
  package var zone: String
  /// The memory for sessions, in bytes.
  package var size: Int
  /// Milliseconds after its last response in which a session is remembered.
  package var timeout: Int
  /// `header`: a session is learnt from the head of a response, not at its end.
  package var isEarly: Bool
}
