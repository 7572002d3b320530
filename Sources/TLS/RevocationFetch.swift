package import Crypto
import Observability

/// Which revocation lists of clients' CAs are fetched: `ssl_crl http://…`, `ssl_crl_fetch` and `ssl_crl_cache`.
public struct RevocationFetch: Sendable, Hashable {
  /// A list of `ssl_crl` that is a URL, and the file that keeps it.
  public struct NamedList: Sendable, Hashable {
    package var url: RevocationURL
    package var file: MaterialReference

    package init(_ url: RevocationURL, file: MaterialReference) {
      self.url = url
      self.file = file
    }
  }

  /// Which distribution points of clients' certificates are fetched (`ssl_crl_fetch`).
  public enum Points: Sendable, Hashable {
    case none
    /// Those of every host, but at no address of this machine or its link.
    case anywhere
    /// Those of these hosts, wherever they are. In lower case; without a port: any port.
    case hosts([Host])
  }

  public struct Host: Sendable, Hashable {
    package var name: String
    package var port: UInt16?

    package init(name: String, port: UInt16?) {
      self.name = name
      self.port = port
    }
  }

  /// The folder that keeps what was fetched; nil unless something is fetched.
  package var folder: String?
  /// The most seconds between two requests for a list.
  package var refresh = 3600
  package var lists: [NamedList] = []
  package var points = Points.none

  package init() {}

  /// Whether a certificate without a revocation list of its CA is refused, even while there is no list at all.
  package var isOn: Bool { !lists.isEmpty || points != .none }

  /// Whether a URL that a certificate names may be fetched.
  package func admits(_ url: RevocationURL) -> Bool {
    switch points {
    case .none: false
    case .anywhere: true
    case .hosts(let hosts): hosts.contains { $0.name == url.host && ($0.port == nil || $0.port == url.port) }
    }
  }

  /// The bytes by which two settings let in other clients.
  var fingerprint: [UInt8] {
    guard isOn else { return [] }
    let points: String =
      switch self.points {
      case .none: ""
      case .anywhere: "on"
      case .hosts(let hosts): hosts.map { "\($0.name):\($0.port ?? 0)" }.sorted().joined(separator: " ")
      }
    let urls = lists.map(\.url.description).sorted()
    return [6] + Array("\(points)\n\(urls.joined(separator: "\n"))".utf8) + [0]
  }
}
