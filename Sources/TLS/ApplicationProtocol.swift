import Bytes
import COpenSSL

/// Negotiates the application protocol by ALPN (RFC 7301): HTTP/1.1 and no other.
///
/// The server refuses a client that offers only other protocols. An attacker may have redirected that client here from
/// a server of another protocol that shows the same certificate (ALPACA, https://alpaca-attack.com).
enum ApplicationProtocol {
  /// SSL_CTX_set_alpn_select_cb. OpenSSL calls it only when the client sends the extension, after checking the list's
  /// form.
  static let choose:
    @convention(c) (
      OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
      UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
    ) -> Int32 = { _, chosen, chosenCount, offered, offeredCount, _ in
      let list = UnsafeBufferPointer(start: offered, count: Int(offeredCount))
      guard let place = place(of: "http/1.1", in: list), let start = list.baseAddress else {
        // OpenSSL turns this into the alert no_application_protocol (120).
        return SSL_TLSEXT_ERR_ALERT_FATAL
      }
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
