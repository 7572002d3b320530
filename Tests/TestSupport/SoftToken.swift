import Bytes
package import Crypto
import Glibc

/// A PKCS#11 token in software, of one test: SoftHSM's, in the scene's folder.
package struct SoftToken: Sendable {
  /// With letters, so that no port or process in a log has it by chance.
  package static let pin = "four711seven"
  private static let tool = "/usr/bin/softhsm2-util"
  private static let module = "/usr/lib/softhsm/libsofthsm2.so"

  /// SoftHSM (softhsm2). Whether OpenSSL has the engine (libengine-pkcs11-openssl) its own test says.
  package static let isInstalled = access(tool, X_OK) == 0 && access(module, R_OK) == 0

  /// The provider of PKCS#11 (pkcs11-provider), which Debian 12 doesn't have.
  package static let provider = ["x86_64", "aarch64"].map { (machine: String) -> String in
    "/usr/lib/\(machine)-linux-gnu/ossl-modules/pkcs11.so"
  }.first { access($0, R_OK) == 0 }

  /// The same, for whoever is to see the token through the provider.
  package func environmentOfProvider() throws -> [String: String] {
    let settings = try scene.write(
      "provider.cnf",
      text: """
        openssl_conf = init
        [init]
        providers = providers
        [providers]
        default = of_openssl
        pkcs11 = of_token
        [of_openssl]
        activate = 1
        [of_token]
        pkcs11-module-path = \(Self.module)
        activate = 1

        """)
    return environment.merging(["OPENSSL_CONF": settings]) { $1 }
  }

  /// For whoever is to see the token.
  package let environment: [String: String]
  private let scene: Scene

  package init(_ scene: Scene) async throws {
    self.scene = scene
    let folder = try scene.makeFolder("tokens")
    let settings = try scene.write(
      "softhsm2.conf", text: "directories.tokendir = \(folder)\nobjectstore.backend = file\nlog.level = ERROR\n")
    environment = ["SOFTHSM2_CONF": settings, "PKCS11_MODULE_PATH": Self.module]
    try await scene.succeed(
      Self.tool, "--init-token", "--free", "--label", "test", "--so-pin", "0815", "--pin", Self.pin,
      environment: environment)
  }

  /// Puts a key into the token, under a name and a number.
  package func keep(_ key: PrivateKey, as name: String, number: String) async throws {
    let file = try scene.write("\(name).token", key.pem.withUnsafeBytes { Array($0) })
    try await scene.succeed(
      Self.tool, "--import", file, "--token", "test", "--label", name, "--id", number, "--pin", Self.pin,
      environment: environment)
    unlink(file)
  }
}
