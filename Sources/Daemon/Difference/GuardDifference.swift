import Crypto
import Proxy
import Signature
import Transport

/// What changes about the signatures and the files of one location.
enum GuardDifference {
  static func compare(
    _ old: LocationSettings, _ new: LocationSettings, _ names: ([Int: String], [Int: String]),
    _ found: inout TrustChanges
  ) {
    compareSignatures(old.signature, new.signature, &found)
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

  private static func compareSignatures(
    _ old: SignatureSettings?, _ new: SignatureSettings?, _ found: inout TrustChanges
  ) {
    guard let old, let new else {
      return found.flag(
        old == nil, new == nil, opens: "requests need no signature any more (message_signature)",
        closes: "requests must be signed (message_signature verify)")
    }
    func keys(_ settings: SignatureSettings) -> Set<String> {
      Set(settings.keys.map { "\(String(decoding: $0.id, as: UTF8.self)) (\($0.algorithm.rawValue), \($0.file))" })
    }
    found.set(keys(old), keys(new)) {
      "requests signed by the key \($0) are accepted"
    } removed: {
      "requests signed by the key \($0) are no longer accepted"
    }
    found.guards(Set(old.components.map(\.description)), Set(new.components.map(\.description))) {
      "a signature must cover \($0)"
    } removed: {
      "a signature need not cover \($0) any more"
    }
    found.limit("the age of a signature", old.maxAge, new.maxAge, unit: "s")
    found.limit("the lead of a signer's clock", old.skew, new.skew, unit: "s")
    found.flag(
      !old.hasNonce, !new.hasNonce, opens: "a signed request can be sent again (no nonce)",
      closes: "a signed request can't be sent again (message_signature_nonce)")
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
    switch (old.signing, new.signing) {
    case (.some, nil): found.opens("requests go to the upstream without a signature")
    case (nil, .some): found.closes("requests go to the upstream with a signature (message_signature sign)")
    case (let before?, let after?) where before.keys != after.keys:
      found.other("requests go to the upstream with the signature of another key")
    default: break
    }
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
