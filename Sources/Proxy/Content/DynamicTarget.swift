import Upstream

/// The target of a `proxy_pass` with variables, as it is for one request.
struct DynamicTarget {
  /// Host and port, as the target has them.
  let authority: String
  let defaultPort: UInt16
  /// `$proxy_host` and `$proxy_port`.
  let host: [UInt8]
  let port: [UInt8]
  /// nil until the name is resolved.
  var group: UpstreamGroup?

  init(_ target: [UInt8], _ pass: LiveProxyPass) {
    authority = String(String(decoding: target, as: UTF8.self).prefix { $0 != "/" && $0 != "?" })
    defaultPort = pass.settings.scheme.defaultPort
    (host, port) = DynamicGroups.variables(of: authority, defaultPort: defaultPort)
  }
}
