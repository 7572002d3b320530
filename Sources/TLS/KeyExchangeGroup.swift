import Bytes
import COpenSSL
import Crypto

/// Names the groups of a key exchange, for variables and reports.
enum KeyExchangeGroup {
  /// The group that the handshake chose; empty before that, and for a key exchange without a group.
  static func negotiated(_ ssl: OpaquePointer) -> String {
    // OpenSSL reads the session without a look whether there is one.
    SSL_get_session(ssl) == nil ? "" : name(copenssl_get_negotiated_group(ssl), ssl)
  }

  /// The groups that the client named, in its order.
  static func offered(_ ssl: OpaquePointer) -> [String] {
    defer { OpenSSLError.discard() }
    let count = Int(copenssl_get1_groups(ssl, nil))
    guard count > 0 else { return [] }
    var groups = [Int32](repeating: 0, count: count)
    let found = Int(copenssl_get1_groups(ssl, &groups))
    return groups.prefix(max(0, found)).map { name($0, ssl) }
  }

  /// As nginx: `X25519`, `prime256v1`, and `0x11ec` where OpenSSL knows no name. nginx has a number also for a group that has
  /// only a name of TLS, such as X25519MLKEM768 of OpenSSL 3.5.
  ///
  /// `group`: OpenSSL's object number, or the number of RFC 8446 §4.2.7 with TLSEXT_nid_unknown.
  static func name(_ group: Int32, _ ssl: OpaquePointer) -> String {
    guard group > 0 else { return "" }
    if group & TLSEXT_nid_unknown == 0 { return OBJ_nid2sn(group).map { String(cString: $0) } ?? "" }
    if let name = SSL_group_to_name(ssl, group) { return String(cString: name) }
    return "0x" + Hex.encode([UInt8(truncatingIfNeeded: group >> 8), UInt8(truncatingIfNeeded: group)])
  }
}
