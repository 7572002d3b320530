import Crypto
import Features
import Forward
import Glibc
import Observability
import TLS
import Traffic

extension MaterialLoader {
  /// Makes the store from which handshakes get certificates; nil if the block has none with variables. Warns of folders
  /// that are not there: no handshake would find a certificate.
  mutating func certificateStore(_ tls: ServerTLSSettings, _ shared: SharedState) -> CertificateStore? {
    guard !tls.namedCertificates.isEmpty else { return nil }
    for path in tls.namedPaths {
      for folder in path.folders where access(folder, F_OK) != 0 {
        report(
          Diagnostic(
            .warning, at: path.location,
            "\"\(folder)\" can't be found: \(String(cString: strerror(errno))); handshakes look there for \"\(path)\"",
            hint: "make the folder; until the files are there, these handshakes fail"))
      }
    }
    return CertificateStore(
      tls.certificateCache, passwords: passwords(in: tls.passwordFile), pool: shared.pool, tokens: shared.tokens)
  }
}

extension ServerTLSSettings {
  var namedPaths: [CertificatePath] {
    namedCertificates.flatMap { [$0.certificate, $0.key].compactMap { $0 } }
  }
}

extension ServingAccess {
  /// Warns of folders in which the serving user can't open files, although root could when it checked them.
  static func closedToHandshakes(_ http: HTTPSettings, _ user: String) -> [Diagnostic] {
    var seen: Set<String> = []
    let paths = http.servers.flatMap { $0.tls?.namedPaths ?? [] }
    return paths.flatMap { path in path.folders.map { (path, $0) } }.compactMap { path, folder in
      guard seen.insert(folder).inserted, access(folder, X_OK) != 0, errno != ENOENT else { return nil }
      return Diagnostic(
        .warning, at: path.location,
        "\"\(folder)\" can't be entered by the user that serves, \(user): handshakes find no certificate in it",
        hint: "let the group of `user` enter the folder and read its files: chgrp, chmod 750 and 640")
    }
  }
}
