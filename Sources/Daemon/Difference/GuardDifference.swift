import Crypto
import Proxy
import Transport

/// What changes about the files of one location.
enum GuardDifference {
  static func compare(
    _ old: LocationSettings, _ new: LocationSettings, _ names: ([Int: String], [Int: String]),
    _ found: inout TrustChanges
  ) {
    func folder(_ settings: LocationSettings, _ names: [Int: String]) -> Set<String> {
      guard let root = settings.files?.root else { return [] }
      return [String(decoding: root.folder, as: UTF8.self) + root.rest.text(names)]
    }
    found.set(folder(old, names.0), folder(new, names.1)) {
      "serves files of \($0)"
    } removed: {
      "no longer serves files of \($0)"
    }
  }

  /// What a `proxy_pass` tells the upstream of the connection, and how it signs.
  static func compare(
    _ old: ProxyPassSettings, _ new: ProxyPassSettings, _ names: ([Int: String], [Int: String]),
    _ found: inout TrustChanges
  ) {
    func local(_ origin: OriginSettings, _ names: [Int: String]) -> String {
      origin.local?.text(names) ?? origin.fixed.local?.description ?? "chosen by the system"
    }
    let addresses = (local(old.origin, names.0), local(new.origin, names.1))
    if addresses.0 != addresses.1 {
      found.other("connections to the upstream come from the address \(addresses.1) (was \(addresses.0))")
    }
    if old.origin.header != new.origin.header {
      found.other(
        new.origin.header.map { "the upstream is told the client by a PROXY header (\($0.asWritten))" }
          ?? "the upstream is no longer told the client by a PROXY header")
    }
    Signatures.compare(signing: old.signing, new.signing, &found)
    if old.body != new.body { found.other("the upstream gets another body (proxy_set_body)") }
    let follows = (!old.ignoredHeaders.contains(.redirect), !new.ignoredHeaders.contains(.redirect))
    found.flag(
      follows.0, follows.1, opens: "the upstream may lead a request to any location (X-Accel-Redirect)",
      closes: "the upstream can't lead a request to another location (X-Accel-Redirect is ignored)")
  }
}

extension ProxyHeaderForm {
  fileprivate var asWritten: String {
    switch self {
    case .version1: "version 1"
    case .version2(hasCertificate: false): "version 2"
    case .version2(hasCertificate: true): "version 2, with the client's certificate"
    }
  }
}
