package import Crypto
import Glibc

/// `openssl ocsp` as a responder for the certificates of one authority.
package final class OCSPResponder: Sendable {
  package enum Status: Sendable {
    case good, revoked
  }

  package let port: UInt16
  private let process: ChildProcess
  package var url: String { "http://127.0.0.1:\(port)/" }

  /// Knows these, and nothing else. `signer`: whose key signs; the authority's own unless said.
  package init(
    _ scene: Scene, _ authority: CertifiedKey, _ known: [(Certificate, Status)], signer: CertifiedKey? = nil,
    name: String = "ocsp", port: UInt16? = nil
  ) async throws {
    let port = try port ?? scene.port()
    self.port = port
    let index = known.map { certificate, status in
      let days = status == .good ? "V\t301231235959Z\t\t" : "R\t301231235959Z\t250101000000Z\t"
      return "\(days)\(certificate.serial)\tunknown\t/CN=\(certificate.serial)\n"
    }
    let files = try scene.identity("\(name)-signer", signer ?? authority)
    process = try ChildProcess(
      "openssl",
      [
        "ocsp", "-index", try scene.write("\(name).txt", text: index.joined()), "-port", "\(port)", "-CA",
        try scene.write("\(name)-ca.pem", text: authority.certificate.pem), "-rsigner", files.certificate, "-rkey",
        files.key, "-nmin", "60",
      ], in: scene.folder, output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    let process = process
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).out") + scene.text("\(name).err") }
    try await until("openssl ocsp to listen") {
      if let ending = process.ending { throw ToolFailed(description: "openssl ocsp ended, \(ending)") }
      // Not by a connection: one that asks nothing holds it up for ever.
      return scene.text("\(name).err").contains("waiting for OCSP client connections")
    }
  }

  package func stop() { process.stop() }
}
