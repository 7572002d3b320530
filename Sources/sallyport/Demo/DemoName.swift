import ArgumentParser
import Crypto
import Review
import Transport

/// A further name, besides localhost, under which clients reach the demo: `--name`.
struct DemoName: ExpressibleByArgument, Hashable {
  let text: String
  private let isAddress: Bool

  /// Accepts a host name in RFC 1123's characters, or a literal address: both fit into a certificate and the
  /// configuration.
  init?(argument: String) {
    let text = argument.lowercased()
    isAddress = SocketAddress(literal: text, port: 0) != nil
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    let isName =
      text.utf8.count <= 253
      && labels.allSatisfy { label in
        (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
          && label.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }
      }
    guard isAddress || isName else { return nil }
    self.text = text
  }

  private init(_ text: String) {
    self.text = text
    isAddress = SocketAddress(literal: text, port: 0) != nil
  }

  /// The names that the server's certificate always has.
  static let standard = [DemoName("localhost"), DemoName("127.0.0.1"), DemoName("::1")]

  var alternative: CertificateBuilder.AlternativeName { isAddress ? .ip(text) : .dns(text) }

  /// The same, and for a host name the one below it by which a client asks for a bad server.
  func alternatives(for server: BadServer) -> [CertificateBuilder.AlternativeName] {
    isAddress ? [.ip(text)] : [.dns(text), .dns("\(server.rawValue).\(text)")]
  }
}
