package import Bytes

/// Makes Basic credentials (RFC 7617): the password in base64, always in UTF-8 as in the user file.
package enum BasicAnswer {
  package static func append(_ user: UpstreamUser, to output: inout ByteBuffer) {
    var text = user.name + [0x3A]
    text.reserveCapacity(text.count + user.password.count)
    user.password.withUnsafeBytes { text += $0 }
    defer { text.wipe() }
    output.append("Basic ")
    text.withUnsafeBytes { Base64.encode($0, into: &output) }
  }
}
