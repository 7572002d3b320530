import ArgumentParser
import Crypto
import Review

/// The proxy through which a command reaches a server, as `proxy_via` names it.
struct ProxyOnTheWay: ParsableArguments {
  @Option(help: "The proxy on the way to the server, http://HOST:PORT, as in proxy_via.")
  var via: String?

  @Option(help: "The file with NAME:PASSWORD for --via.")
  var viaUserFile: String?

  /// nil: the server is asked without a proxy.
  func proxy() throws(MaterialError) -> ProbeProxy? {
    guard let via else {
      guard let viaUserFile else { return nil }
      throw MaterialError(
        culprit: viaUserFile, location: nil,
        message: "--via-user-file is the file of the user of --via, which is missing")
    }
    guard let proxy = try ProbeProxy(via, userFile: viaUserFile) else {
      throw MaterialError(culprit: via, location: nil, message: "--via \"\(via)\": expected http://HOST:PORT")
    }
    return proxy
  }
}
