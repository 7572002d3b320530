/// Requests that sallyport passes on although nginx or HAProxy refuses them.
enum FramingDifferences {
  static func isMeant(_ framing: FramingCase) -> Bool {
    switch framing.group {
    case "byte in a target", "target":
      // HAProxy refuses bytes from 0x80 on. nginx passes them, and clients rely on it: curl sends a path as it was typed.
      // They frame nothing, and the upstream gets the byte that the location was chosen by.
      if framing.text.unicodeScalars.contains(where: { $0.value >= 0x80 }) { return true }
      // HAProxy takes the question mark for a part of the authority, which RFC 3986 §3.2 ends there.
      return framing.text.contains("http://h?/c")
    case "0.CL":
      // HAProxy refuses a body of these methods in HTTP/1.0. nginx passes it, and as a proxy it sends such requests itself.
      // Content-Length frames it for everybody.
      return framing.text.contains(" /c HTTP/1.0")
    case "PROXY 1":
      // By the specification, a receiver ignores what follows UNKNOWN. So does nginx.
      return framing.text.hasPrefix("PROXY UNKNOWN whatever")
    case "PROXY 2":
      // By the specification, a receiver accepts AF_UNSPEC and Unix sockets, and uses the connection's own address. So does
      // nginx. HAProxy 3.0 also refuses LOCAL with the family TCP4, which a receiver ignores. HAProxy refuses a checksum
      // that doesn't fit; for nginx it is a TLV like others.
      return ["QUIT\n!\0\0\0", "QUIT\n!1\0", "QUIT\n \u{11}\0", "\u{03}\0\u{04}"].contains { framing.text.contains($0) }
    default: return false
    }
  }
}
