import COpenSSL
import Crypto

/// What settings allow in handshakes that makes other lines of their policy worth less, or a handshake cost too much: for
/// the check of a configuration. It forbids nothing.
package struct AlgorithmWeakness: Sendable, Hashable {
  /// What is allowed, and what the policy is then worth.
  package let words: String
  package let advice: String
}

extension ServerTLSContext {
  package var weaknesses: [AlgorithmWeakness] {
    AlgorithmWeakness.all(
      of: handle, ciphers: settings.ciphers, groups: settings.confCommands.groups ?? settings.curves, isServer: true)
  }
}

extension UpstreamTLSContext {
  package var weaknesses: [AlgorithmWeakness] {
    AlgorithmWeakness.all(
      of: handle, ciphers: settings.ciphers, groups: settings.confCommands.groups ?? settings.curves, isServer: false)
  }
}

extension AlgorithmWeakness {
  /// `ciphers`, `groups`: the lists as written; nil for the defaults.
  fileprivate static func all(
    of context: OpaquePointer, ciphers: String?, groups: String?, isServer: Bool
  ) -> [AlgorithmWeakness] {
    defer { OpenSSLError.discard() }
    return versions(of: context) + suites(of: context, ciphers ?? "", isServer)
      + Self.groups(groups.map { names(inGroups: $0) } ?? [], isServer)
  }

  private static func versions(of context: OpaquePointer) -> [AlgorithmWeakness] {
    let (least, most) = (copenssl_ctx_get_min_proto(context), copenssl_ctx_get_max_proto(context))
    let options = SSL_CTX_get_options(context)
    let old = [
      ("TLSv1", Int(TLS1_VERSION), COPENSSL_OP_NO_TLSv1), ("TLSv1.1", Int(TLS1_1_VERSION), COPENSSL_OP_NO_TLSv1_1),
    ].filter { _, version, off in least <= version && (most == 0 || most >= version) && options & off == 0 }
    guard !old.isEmpty else { return [] }
    return [
      AlgorithmWeakness(
        words:
          "\(old.map { $0.0 }.joined(separator: " and ")) may be negotiated: certificates are then proven by SHA-1 and MD5, "
          + "so what the policy says of them is worth no more than these (RFC 8996)",
        advice: "allow TLSv1.2 and TLSv1.3 alone")
    ]
  }

  private static func suites(of context: OpaquePointer, _ list: String, _ isServer: Bool) -> [AlgorithmWeakness] {
    let words = names(inCiphers: list)
    let usable = usableSuites(of: context)
    var found: [AlgorithmWeakness] = []
    if usable.contains(where: { SSL_CIPHER_get_auth_nid($0) == NID_auth_null })
      || !words.isDisjoint(with: ["anull", "adh", "aecdh"])
    {
      found.append(
        AlgorithmWeakness(
          words: "suites without certificates (aNULL) are allowed: whoever is on the way can be the other side, "
            + (isServer
              ? "and a client that chooses one presents no certificate, so it is nobody to the rules"
              : "and no pin, CA or name is compared"),
          advice: "add !aNULL to the list"))
    }
    if usable.contains(where: { SSL_CIPHER_get_cipher_nid($0) == NID_undef })
      || !words.isDisjoint(with: ["enull", "null", "complementofall"])
    {
      found.append(
        AlgorithmWeakness(
          words: "suites without encryption (eNULL) are allowed: whoever is on the way reads each request and response",
          advice: "add !eNULL to the list"))
    }
    if usable.contains(where: { SSL_CIPHER_get_cipher_nid($0) == NID_rc4 })
      || words.contains(where: { $0.hasPrefix("rc4") })
    {
      found.append(
        AlgorithmWeakness(
          words:
            "RC4 is allowed: whoever is on the way can compute what many connections repeat, such as passwords (RFC 7465)",
          advice: "take RC4 out of the list"))
    }
    return found
  }

  /// SSL_CIPHER*, those that the versions and the security level leave. They belong to OpenSSL.
  private static func usableSuites(of context: OpaquePointer) -> [OpaquePointer] {
    guard let ssl = SSL_new(context) else { return [] }
    defer { SSL_free(ssl) }
    guard let list = SSL_get1_supported_ciphers(ssl) else { return [] }
    defer { copenssl_sk_SSL_CIPHER_free(list) }
    return (0..<max(0, copenssl_sk_SSL_CIPHER_num(list))).compactMap { copenssl_sk_SSL_CIPHER_value(list, $0) }
  }

  private static func groups(_ names: [String], _ isServer: Bool) -> [AlgorithmWeakness] {
    var found: [AlgorithmWeakness] = []
    func add(_ which: (String) -> Bool, _ words: String, _ advice: String) {
      let named = names.filter(which)
      if !named.isEmpty {
        found.append(AlgorithmWeakness(words: "\(named.joined(separator: " and ")): \(words)", advice: advice))
      }
    }
    let costly = isServer ? "a client's first message may cost the server" : "an upstream's answer may cost sallyport"
    add(
      { $0.lowercased().hasPrefix("ffdhe") || $0.lowercased().hasPrefix("dhe") },
      "\(costly) up to 141 ms of its time with a group of a finite field, and the other side nothing (CVE-2002-20001)",
      "name X25519, P-256 and P-384")
    add(
      { ["x448", "p-521", "secp521r1"].contains($0.lowercased()) },
      "\(costly) many times the time of X25519 with this group", "name X25519, P-256 and P-384")
    add(
      { ["p-192", "prime192v1", "secp192r1"].contains($0.lowercased()) },
      "this group is weaker than what TLS 1.3 allows, and a recorded connection stays secret for less long",
      "name X25519, P-256 and P-384")
    add(
      { $0 == "DEFAULT" },
      "OpenSSL's own list has groups of finite fields, X448 and P-521, and some releases of OpenSSL 3.5 and 3.6 don't prefer the hybrid group in it",
      "name the groups, or write auto")
    return found
  }

  /// The names of a list of groups: OpenSSL 3.5 has tuples, and the marks ? and *; - takes a group out.
  static func names(inGroups list: String) -> [String] {
    list.split { ":/".contains($0) }.map { String($0.drop { "?*".contains($0) }) }.filter { !$0.hasPrefix("-") }
  }

  /// The words of a cipher list that add suites, in lower case.
  private static func names(inCiphers list: String) -> Set<String> {
    Set(
      list.lowercased().split { ": ,;".contains($0) }.filter { !"!-@".contains($0.first ?? " ") }
        .flatMap { $0.split(separator: "+") }.map(String.init))
  }
}
