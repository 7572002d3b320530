import Crypto
import TLS
import Upstream

/// How servers are verified that a feature asks on its own account, not for a request.
enum ServerTrust {
  /// Makes the context of connections to a server whose name is checked. `trusted`: a file of CAs; nil: those of the system.
  /// Reads the file, so never call it on an event loop.
  static func context(_ trusted: MaterialReference?) throws -> UpstreamTLSContext {
    var settings = UpstreamTLSSettings()
    settings.reusesSessions = false
    settings.verifyDepth = 8
    let anchors =
      if let trusted {
        try TrustAnchors(.certificates(try Certificate.loadAll(trusted)))
      } else {
        try TrustAnchors.system.get()
      }
    settings.trust = .verified(AnchorSettings(file: trusted, includesSystem: trusted == nil), checksName: true)
    return try UpstreamTLSContext(
      settings: settings, material: UpstreamTLSMaterial(policy: .verified(anchors, checksName: true), identity: nil))
  }
}
