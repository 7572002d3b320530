import Crypto
import TLS
import Traffic

extension ServerTLS {
  /// What server blocks show and judge clients by.
  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    let judging = http.servers.compactMap(\.clientPolicy)
    return (judging + judging.compactMap(\.candidate?.settings)).flatMap { tls in
      var files = tls.certificates.flatMap { [$0.certificate, $0.key] }
      files += [tls.passwordFile, tls.clientCertificate, tls.trustedCertificate, tls.dhParameters]
      files += tls.revocationLists.map { $0 } + tls.ticketKeys.map { $0 }
      if case .file(let staple) = tls.stapling { files.append(staple) }
      return FileUse.material(files, reloads: tls.reloads) + FileUse.pins(tls.clientPins, reloads: tls.reloads)
    } + http.servers.compactMap(\.tls).flatMap { chosen(by: $0) + fetched($0.revocationFetch) }
  }

  /// The folders of certificates that handshakes choose.
  private static func chosen(by tls: ServerTLSSettings) -> [FileUse] {
    tls.namedCertificates.flatMap { named in
      [named.certificate, named.key].compactMap { $0 }.flatMap { path in
        path.folders.map { .path(.read, $0, at: path.location) }
      }
    }
  }

  /// The files that keep fetched lists, and the folder in which others may appear.
  private static func fetched(_ fetch: RevocationFetch) -> [FileUse] {
    let files = fetch.lists.compactMap { try? $0.file.resolvedPath(expecting: .revocation) }
    let folder = [fetch.isOn ? fetch.folder : nil].compactMap { $0 }
    return files.map { .watched(.read, $0) }
      + folder.map { fetch.points == .none ? .path(.change, $0) : .watched(.change, $0) }
  }
}
