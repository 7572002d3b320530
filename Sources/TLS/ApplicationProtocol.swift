import Bytes
import COpenSSL

/// Negotiates the application protocol by ALPN (RFC 7301): HTTP/2 where the server block has it, HTTP/1.1, and no other.
///
/// The server refuses a client that offers only other protocols. An attacker may have redirected that client here from
/// a server of another protocol that shows the same certificate (ALPACA, https://alpaca-attack.com).
enum ApplicationProtocol {
  /// SSL_CTX_set_alpn_select_cb. OpenSSL calls it only when the client sends the extension, after checking the list's
  /// form.
  typealias Choice =
    @convention(c) (
      OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
      UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
    ) -> Int32

  static let chooseHTTP1: Choice = { _, chosen, chosenCount, offered, offeredCount, _ in
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredCount))
    return ApplicationProtocol.take(place(of: "http/1.1", in: list), of: list, chosen, chosenCount)
  }

  static let chooseAny: Choice = { _, chosen, chosenCount, offered, offeredCount, _ in
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredCount))
    let place = place(of: "h2", in: list) ?? place(of: "http/1.1", in: list)
    return ApplicationProtocol.take(place, of: list, chosen, chosenCount)
  }

  /// The first name of `ssl_alpn` that the client offers.
  static let chooseNamed: Choice = { ssl, chosen, chosenCount, offered, offeredCount, _ in
    let list = UnsafeBufferPointer(start: offered, count: Int(offeredCount))
    let wanted = TLSStream.of(ssl)?.serverContext?.settings.protocols.list ?? []
    return ApplicationProtocol.take(firstPlace(of: wanted, in: list), of: list, chosen, chosenCount)
  }

  /// The place in `list` of the first name of `wanted` that stands there. Both are lists of length-prefixed names.
  static func firstPlace(of wanted: [UInt8], in list: UnsafeBufferPointer<UInt8>) -> Range<Int>? {
    var rest = wanted[...]
    while let length = rest.first, rest.count > Int(length) {
      let name = rest.dropFirst().prefix(Int(length))
      var at = 0
      while at < list.count {
        let (start, end) = (at + 1, at + 1 + Int(list[at]))
        guard end <= list.count else { break }
        if list[start..<end].elementsEqual(name) { return start..<end }
        at = end
      }
      rest = rest.dropFirst(1 + Int(length))
    }
    return nil
  }

  static func take(
    _ place: Range<Int>?, of list: UnsafeBufferPointer<UInt8>,
    _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ chosenCount: UnsafeMutablePointer<UInt8>?
  ) -> Int32 {
    // OpenSSL turns this into the alert no_application_protocol (120).
    guard let place, let start = list.baseAddress else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    // The result points into the ClientHello, which OpenSSL keeps until it has copied the name.
    chosen?.pointee = start + place.lowerBound
    chosenCount?.pointee = UInt8(truncatingIfNeeded: place.count)
    return SSL_TLSEXT_ERR_OK
  }

  /// Finds a name in a list of length-prefixed names (RFC 7301 §3.1).
  static func place(of name: StaticString, in list: UnsafeBufferPointer<UInt8>) -> Range<Int>? {
    var at = 0
    while at < list.count {
      let start = at + 1
      let end = start + Int(list[at])
      guard end <= list.count else { return nil }
      if UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(list)[start..<end]).equals(name) { return start..<end }
      at = end
    }
    return nil
  }
}
