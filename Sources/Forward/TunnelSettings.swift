package import Crypto
package import Traffic
package import Transport
package import Upstream

/// The proxy of HTTP through which connections to an upstream go (CONNECT).
public struct TunnelSettings: Sendable, Hashable {
  package let proxy: UpstreamAddress
  /// The file of its user; nil: the proxy gets no credentials.
  package let user: MaterialReference?
  /// `ssl_reload` of the block.
  package var reloads = true

  package init(_ proxy: UpstreamAddress, user: MaterialReference?) {
    self.proxy = proxy
    self.user = user
  }

  /// The proxy of `http://HOST:PORT`; nil: the text is something else.
  package static func proxy(_ text: String) -> UpstreamAddress? {
    let scheme = "http://"
    var rest = text.dropFirst(scheme.count)
    if rest.last == "/" { rest = rest.dropLast() }
    guard text.lowercased().hasPrefix(scheme), !text.contains("$"), !text.contains("@"),
      case .host(let host, let port?)? = try? Authority(parsing: String(rest))
    else { return nil }
    return Authority.host(host, port: port).upstreamAddress(defaultPort: port)
  }

  /// The proxy with its addresses and its user, for a command. Blocks, so never on an event loop.
  package func resolved() throws(MaterialError) -> ConnectProxy {
    let addresses =
      switch proxy {
      case .address(let address): [address]
      case .name(let host, let port): Resolver.addresses(of: host, port: port)
      }
    let credentials = try user.map { (user) throws(MaterialError) in try ProxyUser.load(user) }
    guard let found = ConnectProxy(name: proxy.description, addresses: addresses, credentials: credentials) else {
      throw MaterialError(culprit: proxy.description, location: nil, message: "the proxy \(proxy): host not found")
    }
    return found
  }
}

/// The credentials for proxies that a generation has loaded.
package struct TunnelUsers: GenerationPart {
  package var files: [MaterialReference: ProxyCredentials] = [:]
  package init() {}
}

extension OriginSettings {
  /// What is the same for all requests; nil if the proxy of the connections, or its user, isn't known. The connection
  /// would otherwise go to the upstream itself.
  package func base(in generation: Generation) -> ConnectionOrigin? {
    guard let tunnel else { return fixed }
    let addresses =
      switch tunnel.proxy {
      case .address(let address): [address]
      case .name(let host, let port): (generation.hosts[host] ?? []).map { $0.withPort(port) }
      }
    let credentials = tunnel.user.flatMap { generation[TunnelUsers.self].files[$0] }
    guard (credentials == nil) == (tunnel.user == nil),
      let proxy = ConnectProxy(name: tunnel.proxy.description, addresses: addresses, credentials: credentials)
    else { return nil }
    var origin = fixed
    origin.proxy = proxy
    return origin
  }
}
