import Bytes
import HTTP
import Observability
import Traffic

/// The cookie of `sticky cookie` in one worker: its value is the identifier of the server that responds.
final class StickyCookie {
  private let settings: StickyCookieSettings
  private let domain: CompiledTemplate?
  private let sameSite: CompiledTemplate?
  private let clock = ClockText()

  init(_ settings: StickyCookieSettings) {
    self.settings = settings
    domain = settings.domain.map(\.compiled)
    sameSite = settings.sameSite.map(\.compiled)
  }

  /// Adds the Set-Cookie field, with nginx's attributes in nginx's order.
  func add(_ server: [UInt8], to response: OutgoingResponseHead, of exchange: Exchange) {
    var value = ByteBuffer()
    value.append(settings.name)
    value.append("=")
    value.append(server)
    appendLifetime(to: &value, exchange)
    // Variables can be of the client: what is no domain would add attributes of the client's choice.
    if let domain = domain?.bytes(exchange), !domain.isEmpty, domain.allSatisfy(Self.isOfDomain) {
      value.append("; domain=")
      value.append(domain)
    }
    if settings.isHTTPOnly { value.append("; httponly") }
    if settings.isSecure { value.append("; secure") }
    if let sameSite = sameSite?.bytes(exchange), !sameSite.isEmpty {
      value.append("; samesite=")
      // As in nginx, an unknown value counts as the strictest.
      if Self.isSameSite(sameSite) { value.append(sameSite) } else { value.append("strict") }
    }
    if let path = settings.path {
      value.append("; path=")
      value.append(path)
    }
    _ = response.add("Set-Cookie", value.readable)
  }

  private func appendLifetime(to value: inout ByteBuffer, _ exchange: Exchange) {
    switch settings.lifetime {
    case nil: break
    case .longest: value.append("; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000")
    case .seconds(let seconds):
      let now = exchange.worker.clock
      now.update()
      let (end, overflow) = now.seconds.addingReportingOverflow(Int64(clamping: seconds))
      clock.update(seconds: overflow ? .max : end, milliseconds: 0)
      value.append("; expires=")
      value.append(Self.cookieDate(Array(clock.httpDate)))
      value.append("; max-age=")
      value.append(decimal: UInt64(max(0, seconds)))
    }
  }

  /// `Sun, 06-Nov-94 08:49:37 GMT` of `Sun, 06 Nov 1994 08:49:37 GMT`; as in nginx, years after 2037 have four digits.
  static func cookieDate(_ date: [UInt8]) -> [UInt8] {
    guard date.count == 29 else { return date }
    let year = date[12..<16]
    let isLate = !year.lexicographicallyPrecedes(Array("2038".utf8))
    var text = Array(date[..<7])
    text.append(0x2D)
    text += date[8..<11]
    text.append(0x2D)
    text += isLate ? year : year.suffix(2)
    return text + date[16...]
  }

  static func isSameSite(_ value: [UInt8]) -> Bool {
    ["strict", "lax", "none"].contains(String(decoding: value.map(ASCII.lower), as: UTF8.self))
  }

  private static func isOfDomain(_ byte: UInt8) -> Bool {
    (ASCII.lower(byte) &- 0x61 < 26) || byte &- 0x30 < 10 || byte == 0x2E || byte == 0x2D
  }
}
