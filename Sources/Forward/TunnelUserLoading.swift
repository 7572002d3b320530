import Bytes
package import Crypto
import Traffic
package import Transport

/// The file of a proxy's user: one line `NAME:PASSWORD`. No message shows what it has.
package enum ProxyUser {
  package static let kind = MaterialKind("the proxy's user file", expecting: "one line NAME:PASSWORD")
  /// The most bytes of name and password.
  private static let most = 1024

  /// Blocks, so never on an event loop.
  package static func load(_ reference: MaterialReference) throws(MaterialError) -> ProxyCredentials {
    let contents = try reference.read(expecting: kind)
    return try contents.withUnsafeBytes { (bytes) throws(MaterialError) in try parse(bytes, reference) }
  }

  /// The value of Proxy-Authorization for the user (Basic, RFC 7617).
  package static func parse(
    _ bytes: UnsafeRawBufferPointer, _ reference: MaterialReference
  ) throws(MaterialError) -> ProxyCredentials {
    var end = bytes.count
    while end > 0, bytes[end - 1] == 0x0A || bytes[end - 1] == 0x0D { end -= 1 }
    let line = UnsafeRawBufferPointer(rebasing: bytes[..<end])
    guard line.count <= most else { throw fault(reference, "is longer than \(most) bytes") }
    guard let colon = line.firstIndex(of: 0x3A), colon > 0 else {
      throw fault(reference, "has no \"NAME:\"; expected one line NAME:PASSWORD")
    }
    guard line.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw fault(reference, "has a control character or a second line; expected one line NAME:PASSWORD")
    }
    var field = ByteBuffer()
    field.append("Basic ")
    Base64.encode(line, into: &field)
    defer { field.wipe() }
    return ProxyCredentials(SecretBytes(copying: field.readable))
  }

  private static func fault(_ reference: MaterialReference, _ reason: String) -> MaterialError {
    MaterialError(culprit: reference.description, location: reference.location, message: "\"\(reference)\": \(reason)")
  }
}

package struct ProxyUserUnit: MaterialUnit {
  package typealias Content = ProxyCredentials
  package let file: MaterialReference
  package init(file: MaterialReference) { self.file = file }
}
