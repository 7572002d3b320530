import Crypto
import Foundation
import TestSupport
import Testing

@testable import Enrolment

@Suite struct `Identities of services` {
  private func lists(_ scene: Scene, _ name: String) throws -> RevocationList {
    try #require(
      RevocationList.loadAll(MaterialReference(path: scene.path("services/\(name)/crl.pem"))).first)
  }

  private func identity(_ scene: Scene, _ name: String) throws -> Certificate {
    try #require(Certificate.loadAll(MaterialReference(path: scene.path("services/\(name)/identity.pem"))).first)
  }

  @Test func `each has a certificate of an hour with its name, which is renewed in time and not before`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("authority")
    try scene.makeFolder("services")
    let now = Int64(time(nil))
    let identities = try ServiceIdentities(
      in: scene.path("authority"), services: scene.path("services"), names: ["api", "web"], owner: geteuid())
    #expect(try identities.keepUp(at: now).count == 2)
    let first = try identity(scene, "api")
    #expect(first.subjectAltNames.all.map(\.description) == ["api"])
    #expect(try #require(first.notAfter.seconds) == now + 3600)
    #expect(try identities.keepUp(at: now + 1700).isEmpty)
    #expect(try identity(scene, "api") == first)
    #expect(try identities.keepUp(at: now + 1801).count == 2)
    #expect(try identity(scene, "api") != first)
    // A process that starts anew has the same authority, and goes on.
    let next = try ServiceIdentities(
      in: scene.path("authority"), services: scene.path("services"), names: ["api", "web"], owner: geteuid())
    #expect(try next.keepUp(at: now + 1802).isEmpty)
    let key = try CertifiedKey.load(
      certificate: MaterialReference(path: scene.path("services/web/identity.pem")),
      key: MaterialReference(path: scene.path("services/web/identity.pem")), tokens: TokenRefusals())
    let shown = try identity(scene, "web")
    #expect(key.certificate == shown)
  }

  @Test func `a stopped one is on the list of all, with each certificate that is valid still, and gets no successor`()
    throws
  {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("authority")
    try scene.makeFolder("services")
    let (now, folder) = (Int64(time(nil)), scene.path("authority"))
    let identities = try ServiceIdentities(
      in: folder, services: scene.path("services"), names: ["api", "web"], owner: geteuid())
    _ = try identities.keepUp(at: now)
    let first = try identity(scene, "api")
    _ = try identities.keepUp(at: now + 1801)
    let second = try identity(scene, "api")
    try ServiceIdentities.set("api", isStopped: true, in: folder)
    #expect(try identities.keepUp(at: now + 1802).count == 2)
    for name in ["api", "web"] {
      let list = try lists(scene, name)
      let other = try identity(scene, "web")
      #expect(list.revokes(first) && list.revokes(second) && !list.revokes(other))
    }
    #expect(try identities.keepUp(at: now + 3599).isEmpty)
    #expect(try identity(scene, "api") == second)
    // A new identity doesn't bring the old ones back.
    try ServiceIdentities.set("api", isStopped: false, in: folder)
    #expect(try identities.keepUp(at: now + 3600).contains { $0.hasPrefix("api: certificate ") })
    let third = try identity(scene, "api")
    let list = try lists(scene, "web")
    #expect(third != second && list.revokes(second) && !list.revokes(third))
    #expect(throws: AuthorityError.self) { try ServiceIdentities.set("../x", isStopped: true, in: folder) }
  }
}
