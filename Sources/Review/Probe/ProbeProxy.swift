package import Crypto
import Forward
package import Transport

/// The proxy through which a command reaches a server, as its options name it.
package struct ProbeProxy: Sendable {
  let tunnel: TunnelSettings

  /// nil: the text isn't of the form `http://HOST:PORT`. `userFile`: the file with `NAME:PASSWORD`; nil: the proxy gets
  /// no credentials.
  package init?(_ via: String, userFile: String?) throws(MaterialError) {
    guard let proxy = TunnelSettings.proxy(via) else { return nil }
    let user = try userFile.map { (path) throws(MaterialError) in
      try MaterialReference(parsing: path, relativeTo: "")
    }
    tunnel = TunnelSettings(proxy, user: user)
  }

  /// Looks up its addresses, and reads the file. Blocks, so never on an event loop.
  package func resolved() throws(MaterialError) -> ConnectProxy { try tunnel.resolved() }
}
