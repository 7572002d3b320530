import Bytes
import Forward
import HTTP
import Patterns
import Traffic

/// `proxy_redirect` in one worker.
final class RedirectRewrites: ResponseHook {
  private let rules: [(from: LivePattern, to: CompiledTemplate)]

  init(_ settings: [RedirectRewrite]) { rules = settings.map { (LivePattern($0.from), $0.to.compiled) } }

  override var fields: FieldNameSet { FieldNameSet(.location, .refresh) }

  /// As in nginx, `absolute_redirect` makes a Location that became a path absolute. A Location that no rule matched stays
  /// unchanged.
  override func value(of field: Field, in bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> [UInt8]? {
    let value = Array(bytes[field.value])
    var at = 0
    if field.id == .refresh {
      // The form `5; url=http://…`, without case.
      guard let start = value.map({ ASCII.lower($0) }).firstRange(of: Array("url=".utf8)) else { return nil }
      at = start.upperBound
    }
    for rule in rules {
      let rest: ArraySlice<UInt8>
      switch rule.from {
      case .text(let template):
        let from = template.bytes(exchange)
        guard !from.isEmpty, value[at...].starts(with: from) else { continue }
        rest = value[(at + from.count)...]
      case .regex(let expression, let slots):
        guard LivePattern.matches(expression, slots, Array(value[at...]), exchange) else { continue }
        rest = []
      }
      let target = rule.to.bytes(exchange).filter { $0 >= 0x20 && $0 != 0x7F } + rest
      return field.id == .location ? AbsoluteLocation.address(target, exchange) : value[..<at] + target
    }
    return nil
  }
}
