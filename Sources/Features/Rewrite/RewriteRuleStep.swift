import Bytes
import Forward
import HTTP
import Observability
import Patterns
import Traffic

/// `rewrite`.
final class RewriteRuleStep: PhaseStep {
  private let rule: RewriteRule
  private let path: CompiledTemplate
  private let arguments: CompiledTemplate?

  init(_ rule: RewriteRule) {
    self.rule = rule
    path = rule.path.compiled
    arguments = rule.arguments.map(\.compiled)
  }

  override func run(_ exchange: Exchange) -> StepOutcome {
    let subject = Array(exchange.target.uri.readable)
    let outcome = exchange.match(rule.pattern, subject, rule.captures)
    exchange.logRewrite(rule.pattern, subject, outcome)
    switch outcome {
    case .match: break
    case .noMatch: return .next
    case .limit: return exchange.failPattern(rule.pattern)
    }
    if case .redirect(let status) = rule.flag { return redirect(exchange, status) }
    let path = path.bytes(exchange)
    var arguments = arguments?.bytes(exchange)
    if arguments != nil, rule.keepsArguments {
      let own = exchange.arguments
      if !own.isEmpty { arguments?.append(contentsOf: [0x26] + own) }
    } else if arguments == nil, !rule.keepsArguments {
      arguments = []
    }
    exchange.rewrite(path: path, arguments: arguments, keepsLocation: rule.flag == .break)
    exchange.logRewritten {
      "rewritten data: \"\(LogEscape.text(path))\", args: \"\(LogEscape.text(exchange.arguments))\""
    }
    if path.isEmpty {
      exchange.log(.error, "the rewritten URI has a zero length")
      return .fail(ErrorResponse(500))
    }
    switch rule.flag {
    case .none: return .uriChanges
    case .last: return .uriChanged
    case .break: return .endPhase
    case .redirect: return .next
    }
  }

  private func redirect(_ exchange: Exchange, _ status: Int) -> StepOutcome {
    // A server block's `rewrite` runs before the exchange enters a location, so the access rules are checked here too.
    if exchange.denies(exchange.location) { return .responded }
    var target = RedirectAddress.unescape(path.bytes(exchange))
    if rule.keepsArguments {
      let own = exchange.arguments
      if !own.isEmpty { target += [rule.hasQuery ? 0x26 : 0x3F] + own }
    }
    exchange.logRewritten { "rewritten redirect: \"\(LogEscape.text(target))\"" }
    return exchange.redirectUnlessBroken(status: status, to: target)
  }
}

/// The address of a redirect.
enum RedirectAddress {
  /// Decodes the escapes that an address needs not (`NGX_UNESCAPE_REDIRECT`): those above `%` and below DEL, up to the
  /// first `?`. An escape that isn't whole loses its `%`, as in nginx.
  static func unescape(_ text: [UInt8]) -> [UInt8] {
    guard text.contains(0x25) else { return text }
    var output: [UInt8] = []
    output.reserveCapacity(text.count)
    var at = 0
    while at < text.count {
      let byte = text[at]
      at += 1
      if byte == 0x3F { return output + [byte] + text[at...] }
      guard byte == 0x25 else {
        output.append(byte)
        continue
      }
      guard at < text.count else { break }
      let first = text[at]
      at += 1
      guard let high = ASCII.hexValue(first) else {
        output.append(first)
        continue
      }
      guard at < text.count else { break }
      let second = text[at]
      at += 1
      guard let low = ASCII.hexValue(second) else { continue }
      let decoded = high << 4 | low
      // nginx ends at an escaped question mark only if its second digit is a letter, as it always is: 3F.
      if decoded == 0x3F { return output + [decoded] + text[at...] }
      if decoded > 0x25 && decoded < 0x7F { output.append(decoded) } else { output += [0x25, first, second] }
    }
    return output
  }
}
