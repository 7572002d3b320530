import Bytes
import Forward
import HTTP
import Traffic

/// `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags` in one worker, as ngx_http_proxy_module has them.
final class CookieRewrite: ResponseHook {
  private typealias Rule = (from: LivePattern, to: CompiledTemplate)
  private let domains: [Rule]
  private let paths: [Rule]
  private let flags: [(name: LivePattern, flags: [CompiledTemplate])]

  init(_ settings: CookieRewriteSettings) {
    domains = settings.domains.map { (LivePattern($0.from), $0.to.compiled) }
    paths = settings.paths.map { (LivePattern($0.from), $0.to.compiled) }
    flags = settings.flags.map { (LivePattern($0.name), $0.flags.map(\.compiled)) }
  }

  /// The attributes of a Set-Cookie; the first is the cookie itself.
  struct Attribute {
    var key: [UInt8]
    /// nil without `=`.
    var value: [UInt8]?

    func isCalled(_ name: String) -> Bool { key.isSame(as: Array(name.utf8)) }
  }

  override var fields: FieldNameSet { FieldNameSet(.setCookie) }

  override func value(of field: Field, in bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? {
    rewrite(bytes[field.value], exchange)
  }

  /// The value in place of the upstream's; nil if no rule applies.
  private func rewrite(_ value: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? {
    var attributes = value.split(separator: 0x3B, omittingEmptySubsequences: false).map { part in
      let equals = part.firstIndex(of: 0x3D)
      return Attribute(
        key: Self.trimmed(part[..<(equals ?? part.endIndex)]),
        value: equals.map { Self.trimmed(part[part.index(after: $0)...]) })
    }
    // As in nginx, a value without a cookie stays as it is.
    guard attributes.first?.value != nil else { return nil }
    var isChanged = false
    for index in attributes.indices.dropFirst() {
      guard let old = attributes[index].value else { continue }
      let new =
        attributes[index].isCalled("domain")
        ? first(domains, old, exchange, Self.domain)
        : attributes[index].isCalled("path") ? first(paths, old, exchange, Self.path) : nil
      guard let new else { continue }
      attributes[index].value = new
      isChanged = true
    }
    if setFlags(&attributes, exchange) { isChanged = true }
    guard isChanged else { return nil }
    let text = attributes.map { $0.key + ($0.value.map { [0x3D] + $0 } ?? []) }.joined(separator: Array("; ".utf8))
    return text.filter { $0 >= 0x20 && $0 != 0x7F }
  }

  private static func trimmed(_ text: Slice<UnsafeRawBufferPointer>) -> [UInt8] {
    Array(Array(text.drop { $0 == 0x20 }).reversed().drop { $0 == 0x20 }.reversed())
  }

  private func first(
    _ rules: [Rule], _ value: [UInt8], _ exchange: Exchange, _ match: ([UInt8], [UInt8]) -> Range<Int>?
  ) -> [UInt8]? {
    for rule in rules {
      switch rule.from {
      case .text(let template):
        guard let range = match(value, template.bytes(exchange)) else { continue }
        return value[..<range.lowerBound] + rule.to.bytes(exchange) + value[range.upperBound...]
      case .regex(let expression, let slots):
        if LivePattern.matches(expression, slots, value, exchange) { return rule.to.bytes(exchange) }
      }
    }
    return nil
  }

  /// A domain matches whole, without case; a dot before it stays.
  private static func domain(_ value: [UInt8], _ pattern: [UInt8]) -> Range<Int>? {
    let start = value.first == 0x2E ? 1 : 0
    let bare = pattern.first == 0x2E ? Array(pattern.dropFirst()) : pattern
    return Array(value[start...]).isSame(as: bare) ? start..<value.count : nil
  }

  /// A path matches by its beginning.
  private static func path(_ value: [UInt8], _ pattern: [UInt8]) -> Range<Int>? {
    value.starts(with: pattern) ? 0..<pattern.count : nil
  }

  private func setFlags(_ attributes: inout [Attribute], _ exchange: Exchange) -> Bool {
    let name = attributes.first?.key ?? []
    let rule = flags.first { rule in
      switch rule.name {
      case .text(let template): name.isSame(as: template.bytes(exchange))
      case .regex(let expression, let slots): LivePattern.matches(expression, slots, name, exchange)
      }
    }
    guard let rule else { return false }
    for flag in rule.flags {
      let text = String(decoding: flag.bytes(exchange), as: UTF8.self).lowercased()
      if let flag = CookieRewriteSettings.Flag(rawValue: text) { Self.set(flag, in: &attributes) }
    }
    return true
  }

  private static func set(_ flag: CookieRewriteSettings.Flag, in attributes: inout [Attribute]) {
    func put(_ name: String, _ value: String?) {
      let bytes = value.map { Array($0.utf8) }
      if let index = attributes.dropFirst().firstIndex(where: { $0.isCalled(name) }) {
        attributes[index].value = bytes
      } else {
        attributes.append(Attribute(key: Array(name.utf8), value: bytes))
      }
    }
    func drop(_ name: String) {
      let cookie = attributes.prefix(1)
      attributes = cookie + attributes.dropFirst().filter { !$0.isCalled(name) }
    }
    switch flag {
    case .secure: put("Secure", nil)
    case .nosecure: drop("Secure")
    case .httponly: put("HttpOnly", nil)
    case .nohttponly: drop("HttpOnly")
    case .samesiteStrict: put("SameSite", "Strict")
    case .samesiteLax: put("SameSite", "Lax")
    case .samesiteNone: put("SameSite", "None")
    case .nosamesite: drop("SameSite")
    }
  }
}

extension [UInt8] {
  fileprivate func isSame(as other: [UInt8]) -> Bool {
    count == other.count && zip(self, other).allSatisfy { ASCII.lower($0) == ASCII.lower($1) }
  }
}
