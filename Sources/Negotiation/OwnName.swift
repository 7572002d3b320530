/// This host's name as our own lines may contain it: visible ASCII, 1 to 255 bytes (RFC 5321 §4.5.3.1.2). A line end in
/// it would begin another line of the protocol, and angle brackets in POP3's greeting would offer APOP (RFC 1939 §7).
struct OwnName: Sendable, CustomStringConvertible {
  let description: String

  init(_ name: String) {
    let visible = name.utf8.filter { $0 > 0x20 && $0 < 0x7F && !"<>".utf8.contains($0) }.prefix(255)
    description = visible.isEmpty ? "localhost" : String(decoding: visible, as: UTF8.self)
  }
}
