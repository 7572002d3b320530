import Features
import Forward
package import Traffic
import Transport

extension ListenAddress {
  var isUnix: Bool {
    guard case .socket(.unix(path: _)) = self else { return false }
    return true
  }

  /// Whether only programs of this machine can connect. Of a socket that systemd opens, nobody knows before it starts.
  var isOfThisMachine: Bool {
    guard case .socket(let address) = self else { return false }
    return switch address.unmapped {
    case .unix: true
    case .ipv4(let address, _): address >> 24 == 127
    case .ipv6(let high, let low, _): high == 0 && low == 1
    case .name: false
    }
  }
}

/// The addresses that one value of `--listen` or `--health-listen` stands for.
package enum ListenOption {
  /// `HOST:PORT`, `unix:PATH`, `systemd:NAME`. `:PORT` and `PORT` are the port on all addresses of the machine, or with
  /// `onLoopback` on its loopback. Throws the reason.
  ///
  /// `hasIPv6`: whether the machine has IPv6, so that all addresses include those of IPv6.
  package static func addresses(
    _ text: String, hasIPv6: Bool, onLoopback: Bool = false
  ) throws(ProxyOptionFault) -> [ListenAddress] {
    do throws(Authority.ParseError) {
      guard !text.isEmpty else { throw .init(reason: "it is empty", hint: nil) }
      let port = text.hasPrefix(":") ? String(text.dropFirst()) : text
      if !port.isEmpty, port.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
        let hosts = onLoopback ? ["127.0.0.1"] : hasIPv6 ? ["*", "[::]"] : ["*"]
        var found: [ListenAddress] = []
        for host in hosts { found += try SettingsBuilder.listenAddresses("\(host):\(port)") }
        return found
      }
      // A colon in front of anything else would be a host without a name.
      guard !text.hasPrefix(":") || text.hasPrefix("::") else { throw .init(reason: "invalid port", hint: nil) }
      return try SettingsBuilder.listenAddresses(text)
    } catch {
      throw ProxyOptionFault(
        error.reason, hint: "HOST:PORT with an IP address, :PORT for all addresses, unix:/PATH or systemd:NAME")
    }
  }
}
