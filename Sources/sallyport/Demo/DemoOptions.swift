import ArgumentParser
import Crypto
import Review

enum DemoVerification: String, ExpressibleByArgument, CaseIterable {
  case on, optional
}

enum DemoVersion: String, ExpressibleByArgument, CaseIterable {
  case tls12 = "1.2"
  case tls13 = "1.3"
}

/// A pin in characters that need no quoting in the configuration. Loading the configuration parses the pin.
struct DemoPin: ExpressibleByArgument {
  let spelling: String

  init?(argument: String) {
    guard argument.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !Array("\"\\;{}'$#".utf8).contains($0) }) else {
      return nil
    }
    spelling = argument
  }
}

/// The address of the user's own application. Its characters have no special meaning in the configuration.
struct DemoUpstreamURL: ExpressibleByArgument {
  let text: String
  let isTLS: Bool
  /// The host with its port.
  let authority: String

  init?(argument: String) {
    let isTLS = argument.hasPrefix("https://")
    guard isTLS || argument.hasPrefix("http://") else { return nil }
    var rest = argument.dropFirst(isTLS ? 8 : 7)
    if rest.last == "/" { rest = rest.dropLast() }
    let allowed = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")
    guard !rest.isEmpty, rest.allSatisfy(allowed.contains) else { return nil }
    self.isTLS = isTLS
    authority = String(rest)
    text = (isTLS ? "https://" : "http://") + authority
  }
}

extension BadServer: ExpressibleByArgument {}
