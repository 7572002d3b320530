import Bytes
import Crypto
import Glibc

/// A configuration profile for an iOS simulator or device: the CA and the client's certificate with its key.
struct DemoProfile {
  static let fileName = "demo.mobileconfig"

  let text: String

  /// `client`: a PKCS#12 file with the demo's password.
  init(authority: Certificate, client: SecretBytes) {
    let archive = client.withUnsafeBytes { Base64.encode(Array($0)) }
    text = """
      <?xml version="1.0" encoding="UTF-8"?>
      <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
      <plist version="1.0">
      <dict>
        \(Self.head("Configuration", "internal.demo.sallyport", "sallyport demo"))
        <key>PayloadRemovalDisallowed</key><false/>
        <key>PayloadContent</key>
        <array>
          <dict>
            \(Self.head("com.apple.security.root", "internal.demo.sallyport.ca", "sallyport demo CA"))
            <key>PayloadContent</key><data>\(Base64.encode(authority.der))</data>
          </dict>
          <dict>
            \(Self.head("com.apple.security.pkcs12", "internal.demo.sallyport.client", "sallyport demo client"))
            <key>Password</key><string>\(DemoFiles.password)</string>
            <key>PayloadContent</key><data>\(archive)</data>
          </dict>
        </array>
      </dict>
      </plist>

      """
  }

  private static func head(_ type: String, _ identifier: String, _ name: String) -> String {
    """
    <key>PayloadType</key><string>\(type)</string><key>PayloadVersion</key><integer>1</integer>
    <key>PayloadIdentifier</key><string>\(identifier)</string><key>PayloadUUID</key><string>\(uuid())</string>
    <key>PayloadDisplayName</key><string>\(name)</string>
    """
  }

  /// Makes a random UUID (RFC 9562 §5.4).
  private static func uuid() -> String {
    var bytes = (0..<16).map { _ in UInt8.random(in: 0...255) }
    bytes[6] = bytes[6] & 0x0F | 0x40
    bytes[8] = bytes[8] & 0x3F | 0x80
    let hex = Hex.encode(bytes).uppercased()
    var parts: [Substring] = []
    var rest = hex[...]
    for count in [8, 4, 4, 4, 12] {
      parts.append(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
    return parts.joined(separator: "-")
  }
}
