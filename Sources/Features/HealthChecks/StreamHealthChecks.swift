import Forward
import Language
import Observability
import Patterns
import Traffic

/// Active health checks in `stream` (nginx's commercial edition: ngx_stream_upstream_hc_module).
enum StreamHealthChecks: PassFeature {
  static let chapter = Chapter.healthChecks
  static let kinds: Set<TrafficKind> = [.stream]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    guard let line = check.line(in: level.scope), !UpstreamPass.forwards(level.scope, builder.features) else {
      return
    }
    builder.error(
      line.location, "\"health_check\" in a server without proxy_pass",
      hint: "write it beside the proxy_pass that names the upstream group")
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    HealthCheckSettings.read(draft, check, &builder)
  }

  static let check = DirectiveEntry.local(
    "health_check", .streamServer,
    .words(
      0...Int.max, "[interval=TIME] [jitter=TIME] [fails=N] [passes=N] [port=N] [mandatory [persistent]] [match=NAME]"
    ), "interval=5s jitter=0 fails=1 passes=1",
    "Checks the servers of the group that `proxy_pass` names, over a connection of its own with the TLS, the trust, the"
      + " `proxy_starttls` and the PROXY header of the server block. Without `match`, a server that takes the connection and"
      + " completes the handshake passes. A server that is down gets no connections. The group needs no `zone`.",
    example: "health_check interval=10s;")
  static let timeout = Row<HealthCheckSettings>.milliseconds(
    "health_check_timeout", .everyStream, \.timeout,
    "How long a health check may take, from the connection to what `expect` names.",
    example: "health_check_timeout 2s;", trust: .none)
  static let match = DirectiveEntry.local(
    "match", .stream, .block(1...1, "NAME"), "What a health check sends, and what it expects.", repeatable: true,
    example: "match m { send \"PING\\r\\n\"; expect \"+PONG\"; }")
  static let send = DirectiveEntry.local(
    "send", .streamMatch, .words(1...1, "TEXT"), "The bytes to send. `\\x` and two hexadecimal digits are a byte.",
    example: "send \"PING\\r\\n\";")
  static let expect = DirectiveEntry.local(
    "expect", .streamMatch, .words(1...2, "TEXT | ~|~* REGEX"),
    "What the first 64 KiB of the server's bytes must contain: a text, in which `\\x` and two hexadecimal digits are a"
      + " byte, or what a regular expression matches.", example: "expect ~ \"^\\+PONG\";")

  static let directives: [DirectiveEntry] = [
    check,
    timeout.entry,
    match, send, expect,
  ]

  /// Builds all `match` blocks of `stream`, before any `health_check` names one of them.
  static func begin(_ stream: Scope, _ builder: inout SettingsBuilder) {
    guard builder.kind == .stream else { return }
    for directive in match.lines(in: stream) {
      let name = directive.text(0)
      guard builder[HealthChecks.Block.self].streamMatches[name] == nil else {
        builder.error(directive.place(0), "duplicate match \"\(name)\"", hint: "use another name")
        continue
      }
      let scope = Scope(directive.block ?? [], outer: nil)
      if scope.directives.isEmpty {
        builder.error(
          directive.location, "match \"\(name)\" says nothing, so that every server that answers would pass",
          hint: "send or expect, or leave match out")
      }
      var tests = StreamMatch()
      tests.send = send.line(in: scope)?.arguments.first.flatMap { matchBytes($0, &builder) } ?? []
      tests.expected = expect.line(in: scope).flatMap { expectation($0, &builder) }
      builder[HealthChecks.Block.self].streamMatches[name] = tests
    }
  }

  /// `expect TEXT;`, `expect ~ REGEX;` or `expect ~* REGEX;`
  private static func expectation(_ line: Directive, _ builder: inout SettingsBuilder) -> StreamMatch.Expectation? {
    guard line.arguments.count == 2 else {
      return line.arguments.first.flatMap { matchBytes($0, &builder) }.map { .bytes($0) }
    }
    let word = line.arguments[1]
    switch line.text(0) {
    case "~": return MatchPattern.read(word, &builder).map { .pattern($0) }
    case "~*": return MatchPattern.read(word, caseless: true, &builder).map { .pattern($0) }
    default:
      builder.error(
        line.location, "invalid test in \"\(line.name)\" directive",
        hint: "expect \"TEXT\"; or expect ~ \"REGEX\"; or expect ~* \"REGEX\";")
      return nil
    }
  }

  /// The bytes of a text in which `\xHH` is a byte.
  private static func matchBytes(_ word: Word, _ builder: inout SettingsBuilder) -> [UInt8]? {
    var bytes: [UInt8] = []
    var rest = Array(word.text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "\\"), rest.first == UInt8(ascii: "x") else {
        bytes.append(byte)
        continue
      }
      let digits = String(decoding: rest.dropFirst().prefix(2), as: UTF8.self)
      guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else {
        builder.error(
          word.location, "\"\\x\" without two hexadecimal digits in \"\(word.text)\"", hint: "such as \\x0a")
        return nil
      }
      bytes.append(value)
      rest = rest.dropFirst(3)
    }
    if bytes.isEmpty { builder.error(word.location, "an empty text", hint: "leave the line out") }
    return bytes
  }
}

extension StreamMatch {
  /// Whether what a server has sent is what is expected. nil: its expression was too much work.
  func isMet(by bytes: [UInt8], _ scratch: RegularExpression.Scratch) -> Bool? {
    switch expected {
    case nil: return true
    case .bytes(let text):
      return bytes.withUnsafeBytes { bytes in
        text.withUnsafeBytes { text in
          text.count <= bytes.count
            && (0...(bytes.count - text.count)).contains { start in
              bytes[start] == text[0] && bytes[start..<(start + text.count)].elementsEqual(text)
            }
        }
      }
    case .pattern(let pattern):
      return switch bytes.withUnsafeBytes({ pattern.outcome($0, scratch) }) {
      case .match: true
      case .noMatch: false
      case .limit: nil
      }
    }
  }

  /// For the log.
  var words: String {
    switch expected {
    case nil: ""
    case .bytes(let text): "\"\(String(decoding: text, as: UTF8.self))\""
    case .pattern(let pattern): "what matches \"\(pattern.expression.pattern)\""
    }
  }
}
