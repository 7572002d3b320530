import Crypto
import Glibc
import TestSupport
import Testing

/// Several lists of one CA: of two of its keys (RFC 5280 §4.1.2.4: a name says nothing of the key), and of parts of its
/// certificates (§5.2.5, §6.3.3).
@Suite(.staged) struct `Several revocation lists of one CA` {
  private static let point = "http://crl.test/a.crl"

  private func server(_ port: UInt16, cas: String = "ca.pem") -> String {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls.replacing("ca.pem", with: cas))
        ssl_crl crl.pem; ssl_verify_depth 3;
        location / { return 200 "verify=$ssl_client_verify\\n"; } }
      """)
  }

  private func list(
    _ authority: CertifiedKey, revoking: [IdentityFiles] = [], number: Int = 1, scope: String? = nil, age: Int64 = 3600,
    ends: Int64 = 86_400, namesKey: Bool = false
  ) throws -> String {
    var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
    (builder.scope, builder.namesKey) = (scope, namesKey)
    builder.thisUpdate = Int64(time(nil)) - age
    builder.nextUpdate = Int64(time(nil)) + ends
    return try builder.pem(signedBy: authority)
  }

  private func client(
    _ scene: Scene, _ name: String, by authority: CertifiedKey, points: [String] = []
  ) throws -> IdentityFiles {
    var builder = CertificateBuilder(commonName: name, .leaf([.clientAuth]))
    builder.revocationURLs = points.compactMap { RevocationURL($0) }
    return try scene.identity(name, builder.signed(by: authority, key: .generate()))
  }

  private func ask(_ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles) async throws -> Int {
    try await scene.curl(cast.to(port) + who.curl + ["https://localhost/"]).status
  }

  /// Which of both keys the file names first, and which list was made later, must not matter.
  @Test(arguments: [true, false], [60 as Int64, 7200])
  func `the lists of a CA's two keys under one name each count for their own key's clients`(
    namesKey: Bool, age: Int64
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), renewed = try TestAuthority()
    try scene.anchors("both", cast.authority, renewed)
    let old = cast.authority.root, new = renewed.root
    let (anna, bob) = (try client(scene, "anna", by: old), try client(scene, "bob", by: new))
    let gone = try client(scene, "gone", by: old), lost = try client(scene, "lost", by: new)
    try scene.write(
      "crl.pem",
      text: list(old, revoking: [gone], number: 7, namesKey: namesKey)
        + list(new, revoking: [lost], number: 3, age: age, namesKey: namesKey))
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port, cas: "both.pem"))
    for (who, status) in [(anna, 200), (bob, 200), (gone, 400), (lost, 400)] {
      #expect(try await ask(scene, cast, port, who) == status, "\(who.certificate)")
    }
    // An old list of one key with a smaller number undoes no revocation, nor does one of the other key.
    try scene.write(
      "crl.new",
      text: list(old, number: 6, age: 30, namesKey: namesKey)
        + list(new, revoking: [lost], number: 4, namesKey: namesKey))
    rename(scene.path("crl.new"), scene.path("crl.pem"))
    try await daemon.logged("reconfigured: generation 2")
    for (who, status) in [(anna, 200), (bob, 200), (gone, 400), (lost, 400)] {
      #expect(try await ask(scene, cast, port, who) == status, "\(who.certificate) after the reload")
    }
  }

  @Test func `an ended list of a CA's other key revokes nobody with the same serial number`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), renewed = try TestAuthority()
    try scene.anchors("both", cast.authority, renewed)
    let bob = try client(scene, "bob", by: renewed.root)
    // The old key's list names the serial number of the new key's certificate.
    try scene.write(
      "crl.pem", text: list(cast.authority.root, revoking: [bob], number: 7, ends: -60) + list(renewed.root, number: 3))
    let port = try scene.port()
    _ = try await Sallyport.start(scene, server(port, cas: "both.pem"))
    #expect(try await ask(scene, cast, port, bob) == 200)
    try scene.write(
      "crl.new", text: list(cast.authority.root, number: 7) + list(renewed.root, revoking: [bob], number: 3, ends: -60))
    rename(scene.path("crl.new"), scene.path("crl.pem"))
    try await until("the new lists to count") { try await ask(scene, cast, port, bob) == 400 }
  }

  @Test func `a list with a URL of its own covers the certificates that name it, and no others`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), root = cast.authority.root
    let anna = try client(scene, "anna", by: root, points: [Self.point])
    let gone = try client(scene, "gone", by: root, points: [Self.point])
    let elsewhere = try client(scene, "elsewhere", by: root, points: ["http://crl.test/b.crl"])
    let nowhere = try client(scene, "nowhere", by: root)
    try scene.write("crl.pem", text: list(root, revoking: [gone], scope: "fullname:URI:\(Self.point)"))
    let port = try scene.port()
    let check = try scene.check(server(port))
    #expect(check.isValid)
    #expect(check.contains("covers only certificates that name the distribution point \(Self.point)"))
    let daemon = try await Sallyport.start(scene, server(port))
    for (who, status) in [(anna, 200), (gone, 400), (elsewhere, 400), (nowhere, 400)] {
      #expect(try await ask(scene, cast, port, who) == status, "\(who.certificate)")
    }
    try await daemon.logged("44:", "scope")
    let inspected = try await scene.sallyport("ca", "inspect", "crl.pem")
    #expect(inspected.text.contains(Self.point))
  }

  @Test func `a CA's pair of lists, of users and of CAs, covers both`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), root = cast.authority.root
    let middle = cast.authority.intermediate
    let anna = try client(scene, "anna", by: root), gone = try client(scene, "gone", by: root)
    let deep = try client(scene, "deep", by: middle)
    let lost = try CertificateBuilder(commonName: "Lost", .authority(pathLength: nil)).signed(
      by: root, key: .generate())
    let below = try client(scene, "below", by: lost)
    func write(_ pair: String...) throws {
      try scene.write("crl.new", text: pair.joined() + list(middle) + list(lost))
      rename(scene.path("crl.new"), scene.path("crl.pem"))
    }
    let users = try list(root, revoking: [gone], number: 8, scope: "onlyuser:TRUE")
    let lostFile = try scene.identity("lostca", lost)
    let authorities = try list(root, revoking: [lostFile], number: 5, scope: "onlyCA:TRUE")
    try write(users, authorities)
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    for (who, status) in [(anna, 200), (gone, 400), (deep, 200), (below, 400)] {
      #expect(try await ask(scene, cast, port, who) == status, "\(who.certificate)")
    }
    // Without the list of CAs, nobody knows of an intermediate CA whether it is revoked; the root needs none.
    try write(users)
    try await daemon.logged("reconfigured: generation 2")
    for (who, status) in [(anna, 200), (gone, 400), (deep, 400), (below, 400)] {
      #expect(try await ask(scene, cast, port, who) == status, "\(who.certificate) by the list of users")
    }
    try write(authorities)
    try await daemon.logged("reconfigured: generation 3")
    #expect(try await ask(scene, cast, port, anna) == 400)
    #expect(try scene.check(server(port)).contains("covers only certificates of CAs"))
  }
}
