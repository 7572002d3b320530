import Crypto
import Features
import Forward
import Glibc
import Observability
import TLS
import Traffic

/// Finds server blocks that no client can get into, because the files that they name let no certificate verify.
///
/// For a start that is a warning, since the files may change while it serves. `check` refuses such a configuration.
enum PossibleClients {
  /// nil: a client can get in, as far as the files tell. `now`: seconds since 1970.
  static func fault(_ tls: ServerTLSSettings, _ material: ServerTLSMaterial, now: Int64) -> Diagnostic? {
    guard tls.verification == .on, tls.rejection != .reportOnly, !tls.rejectsHandshake, !tls.reliesOnPins,
      tls.workloadTrust == nil, let file = tls.clientCertificate ?? tls.trustedCertificate
    else { return nil }
    // A self-signed certificate that may issue none is at least the one of its own client. Without clientAuth in its extended
    // key usage, a root verifies no client.
    let roots = (material.clientCAs + material.trustedCAs).filter {
      $0.endsChain && (tls.clientPurpose == .any || $0.allowsClients)
    }
    guard !roots.isEmpty else {
      return lockout(
        file, "\(file) holds no CA that ends a chain and may issue certificates", "name the root CA of the clients")
    }
    let current = roots.filter { $0.isValid(at: now) }
    guard !current.isEmpty else {
      return lockout(
        file, "no CA of \(file) is valid now", "renew the CA, or compare the clock of this machine: timedatectl")
    }
    guard let list = tls.revocationLists.last, !tls.revocationFetch.isOn else { return nil }
    let own = current.flatMap { root in material.revocations.filter { $0.isSigned(by: root) } }
    guard !own.isEmpty else {
      return lockout(
        list, "no revocation list of \(list) is of a CA of \(file)",
        "add the list of each CA: every chain needs them all")
    }
    guard own.contains(where: { $0.thisUpdate <= now && !$0.isExpired(at: now) }) else {
      return lockout(
        list, "the revocation list of each CA of \(file) has ended, or has not begun",
        "put a new list in its place (`sallyport ca upkeep`)")
    }
    return nil
  }

  /// The roots of which no list is named, beside others that have one: nobody of them gets in. So a CA that is added for a
  /// rotation would let no client in, and nothing else would say it.
  static func unlisted(_ tls: ServerTLSSettings, _ material: ServerTLSMaterial) -> [Diagnostic] {
    guard [.on, .optional].contains(tls.verification), tls.rejection != .reportOnly,
      let list = tls.revocationLists.last, !tls.revocationFetch.isOn
    else { return [] }
    let roots = (material.clientCAs + material.trustedCAs).filter { $0.endsChain && $0.mayIssue }
    let unlisted = roots.filter { root in !material.revocations.contains { $0.isSigned(by: root) } }
    guard unlisted.count < roots.count else { return [] }
    return Set(unlisted.map { "\($0.subject)" }).sorted().map {
      Diagnostic(
        .warning, at: list.location, "no client of \($0) gets in: no revocation list of that CA is named",
        hint: "add its list to ssl_crl: every chain needs the lists of all its CAs")
    }
  }

  private static func lockout(_ file: MaterialReference, _ reason: String, _ hint: String) -> Diagnostic {
    Diagnostic(.warning, at: file.location, "no client can get into this server block: \(reason)", hint: hint).ofLockout
  }
}

extension Certificate {
  fileprivate func isValid(at now: Int64) -> Bool {
    guard case .at(let begin) = notBefore else { return false }
    return begin <= now && !notAfter.hasEnded(at: now)
  }
}

extension MaterialLoader {
  /// Remembers that no client can get into a server block, where that is so.
  mutating func look(forClientsOf tls: ServerTLSSettings, _ material: ServerTLSMaterial) {
    for warning in PossibleClients.unlisted(tls, material) { report(warning) }
    guard let fault = PossibleClients.fault(tls, material, now: Int64(time(nil))), let place = fault.location else {
      return
    }
    lockouts[place] = fault
  }
}
