import ConfigurationSupport
import Traffic
import Forward
import Features
import Configuration
import Crypto
import Observability
import Sandbox
import TestSupport
import Testing

@testable import Loading

@Suite struct `One list of files` {
  @Test func `a file that nobody declares is not watched, not allowed and not loaded`() throws {
    try withScene { scene in
      _ = try scene.serverFiles()
      let ca = scene.path("ca.pem")
      let http = try scene.settings(
        """
        events {}
        http { server { listen 1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on; return 204; } }
        """
      ).http
      let all = http.fileUses, fewer = all.filter { $0.resolvedPath != ca }
      // Not by a closure in the macro: it and the one above would be one function (Swift 6.3.1).
      let use = all.first { $0.resolvedPath == ca }, file = try #require(use?.material)
      func isLoaded(_ uses: [FileUse]) -> Bool {
        var loader = MaterialLoader(uses, from: MaterialSources())
        let isLoaded = loader.authorities(file, passwordFile: nil) != nil
        #expect(isLoaded != loader.diagnostics.contains { $0.message.contains("named by no directive") })
        return isLoaded
      }
      func isAllowed(_ uses: [FileUse]) -> Bool { uses.compactMap { FileNeed($0) }.contains { $0.path == ca } }
      #expect(all.watched.contains(ca))
      #expect(isAllowed(all))
      #expect(isLoaded(all))
      #expect(!fewer.watched.contains(ca), "\(fewer.count)")
      #expect(!isAllowed(fewer), "\(fewer.count)")
      #expect(!isLoaded(fewer))
    }
  }
}
