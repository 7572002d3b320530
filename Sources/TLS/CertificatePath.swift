import Crypto
public import Observability
import Transport

/// A variable whose value is known when a server chooses its certificate: after the ClientHello, before any HTTP.
///
/// `$server_name` is not among them: a server block has one, so the settings hold its text.
public enum HandshakeVariable: String, Sendable, Hashable, CaseIterable {
  case ssl_server_name, server_addr, server_port, remote_addr
}

/// What a handshake knows when the certificate is chosen.
struct HandshakeFacts: Sendable {
  /// The client's SNI in lower case without a trailing dot; empty without SNI.
  var serverName: [UInt8]
  /// nil once the connection is broken.
  var local: SocketAddress?
  var peer: SocketAddress?

  /// Returns the value as part of a file name; nil for a value that can't be one.
  func value(of variable: HandshakeVariable) -> String? {
    switch variable {
    case .ssl_server_name: HostName.isValid(serverName) ? String(decoding: serverName, as: UTF8.self) : nil
    case .server_addr: Self.host(local)
    case .server_port: local?.port.map { "\($0)" }
    case .remote_addr: Self.host(peer)
    }
  }

  private static func host(_ address: SocketAddress?) -> String? {
    switch address {
    case .ipv4, .ipv6: address?.host
    // The path of a unix socket has slashes.
    case .unix, .name, nil: nil
    }
  }
}

/// The names that may become part of a path.
enum HostName {
  /// RFC 1035 §2.3.4, with the underscore that some operators use. A client chooses the name, so a name that passes has
  /// no "/", no empty label and so no "..", and no byte that a file system or a log reads in another way.
  static func isValid(_ name: [UInt8]) -> Bool {
    guard (1...253).contains(name.count) else { return false }
    return name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { label in
      (1...63).contains(label.count)
        && label.allSatisfy { byte in
          byte &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
        }
    }
  }
}

/// Why a handshake has no certificate to present. The handshake ends, and no other certificate is presented.
package struct NamedCertificateFault: Error, Sendable, Hashable {
  package let reason: String
}

/// The name of a file, with variables: `/etc/certs/$ssl_server_name.crt`. Or, with `data:`, the content itself.
public struct CertificatePath: Sendable, Hashable, CustomStringConvertible {
  public enum Part: Sendable, Hashable {
    case literal(String)
    case variable(HandshakeVariable)
    case computed(HandshakeText)
  }

  /// Together an absolute path, or one relative to `base`.
  public let parts: [Part]
  /// A folder; empty for the working directory.
  public let base: String
  /// `data:`: the parts make the content, and no file's name.
  public let isContent: Bool
  /// Where the configuration names it, for messages.
  @NotCompared public private(set) var location: SourceLocation

  public init(_ parts: [Part], relativeTo base: String = "", isContent: Bool = false, location: SourceLocation) {
    self.parts = parts
    self.base = base
    self.isContent = isContent
    self.location = location
  }

  public var description: String {
    if isContent { return MaterialReference.textPrefix + written }
    return (beginsWithTable || base.isEmpty || beginsWithSlash ? "" : "\(base)/") + written
  }

  private var written: String {
    parts.map { part in
      switch part {
      case .literal(let text): text
      case .computed(let text): "${\(text.name)}"
      case .variable(let variable): "${\(variable.rawValue)}"
      }
    }.joined()
  }

  private var beginsWithSlash: Bool { if case .literal(let text)? = parts.first { text.hasPrefix("/") } else { false } }
  private var isComputed: Bool { parts.contains { if case .computed = $0 { true } else { false } } }
  private var beginsWithTable: Bool { if case .computed? = parts.first { true } else { false } }

  /// The folders in which files are looked for: the one before the first variable, or those of a table's values. Other
  /// values add no "..", so no file outside them is opened, except by links in them.
  package var folders: [String] {
    if isContent { return [] }
    return switch parts.first {
    case .literal(let text)?: [Self.folder(of: text, in: base)]
    case .computed(let text)?: text.folders
    case .variable?, nil: [base.isEmpty ? "." : base]
    }
  }

  /// The folder in which a file is whose name begins with this text.
  package static func folder(of beginning: String, in base: String) -> String {
    let text = beginning.hasPrefix("/") || base.isEmpty ? beginning : "\(base)/\(beginning)"
    guard let slash = text.lastIndex(of: "/") else { return "." }
    return slash == text.startIndex ? "/" : String(text[..<slash])
  }

  /// Returns the file that the variables name in this handshake. A variable without a value names no file: otherwise a
  /// client without SNI would get whatever a file `.crt` holds.
  func reference(for facts: HandshakeFacts) throws(NamedCertificateFault) -> MaterialReference {
    var path = ""
    for part in parts {
      switch part {
      case .literal(let text): path += text
      case .variable(let variable):
        guard let value = facts.value(of: variable) else {
          let cause = variable == .ssl_server_name ? "the client sent no valid host name" : "it has no value here"
          throw NamedCertificateFault(reason: "cannot load certificate \"\(self)\": \(cause)")
        }
        path += value
      case .computed(let text):
        guard let value = text.value(for: facts) else {
          throw NamedCertificateFault(reason: "cannot load certificate \"\(self)\": $\(text.name) has no value here")
        }
        path += value
      }
    }
    if isContent { return MaterialReference(text: path, shownAs: description, location: location) }
    // Dots of a table and of a name could make it together.
    guard !path.split(separator: "/").contains("..") || !isComputed else {
      throw NamedCertificateFault(reason: "cannot load certificate \"\(self)\": the name would have \"..\" in it")
    }
    if !base.isEmpty, !path.hasPrefix("/") { path = "\(base)/\(path)" }
    return MaterialReference(path: path, location: location)
  }
}

/// One `ssl_certificate` with its `ssl_certificate_key`, of which at least one has variables in its name.
public struct NamedCertificate: Sendable, Hashable {
  public var certificate: CertificatePath
  /// nil: the certificate's file holds the key too.
  public var key: CertificatePath?
  public init(certificate: CertificatePath, key: CertificatePath?) {
    self.certificate = certificate
    self.key = key
  }

  func source(for facts: HandshakeFacts) throws(NamedCertificateFault) -> CertificateSource {
    let certificate = try certificate.reference(for: facts)
    guard let key else { return CertificateSource(certificate: certificate, key: nil) }
    return CertificateSource(certificate: certificate, key: try key.reference(for: facts))
  }
}

/// A certificate that a server block presents.
public enum PresentedCertificate: Sendable, Hashable {
  /// Loaded when the configuration is.
  case fixed(CertificateSource)
  /// Loaded in the handshake, because its file's name has variables.
  case named(NamedCertificate)
}

/// `ssl_certificate_cache`
public struct CertificateCacheSettings: Sendable, Hashable {
  /// The largest number of certificates and keys: as in nginx, each counts.
  public var max: Int
  /// The largest number of pairs of a certificate and its key, at least 1.
  public var pairs: Int { Swift.max(1, max / 2) }
  /// Seconds without use after which a pair is dropped.
  public var inactive = 10
  /// Seconds after which a pair's files are looked at again.
  public var valid = 60
  public init(max: Int) { self.max = max }
}
