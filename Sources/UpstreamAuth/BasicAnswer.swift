package import Bytes
import Glibc

/// RFC 7617: the password itself, in base64, always in UTF-8 as it stands in the user file.
package enum BasicAnswer {
  package static func append(_ user: UpstreamUser, to output: inout ByteBuffer) {
    var text = user.name + [0x3A]
    text.reserveCapacity(text.count + user.password.count)
    user.password.withUnsafeBytes { text += $0 }
    defer { wipe(&text) }
    output.append("Basic ")
    text.withUnsafeBytes { Base64.encode($0, into: &output) }
  }
}

/// Overwrites what held a secret, as far as it can be known that no copy was made.
func wipe(_ bytes: inout [UInt8]) {
  bytes.withUnsafeMutableBytes { room in
    if let base = room.baseAddress { explicit_bzero(base, room.count) }
  }
}
