@testable import Loading
@testable import Traffic
@testable import Forward
@testable import Features
import Bytes
import Configuration
import ConfigurationSupport
import Crypto
import Glibc
import Observability
import TestSupport
import Testing

@testable import Envelope
@testable import TLS

/// Each kind of file that a reload loads: how to write its versions, and what a generation has of it.
private struct Kind: Sendable, CustomTestStringConvertible {
  let name: String
  /// Writes a version, each of which differs from the one before.
  let write: @Sendable (Cast, Int) throws -> Void
  /// The file to break.
  let file: String
  /// What tells the versions apart.
  let look: @Sendable (KeyMaterial) -> [AnyHashable]

  var testDescription: String { name }
  /// A pass phrase and a response may be any bytes.
  var garbage: String { [".der", ".txt"].contains { file.hasSuffix($0) } ? "" : "-----BEGIN " }

  /// Files in two versions, made once.
  struct Cast: Sendable {
    let scene: Scene
    /// One for all versions: each side's list is of its CA.
    let authority: TestAuthority
    let upstreamAuthority: TestAuthority

    func list(_ authority: TestAuthority, _ file: String, _ number: Int) throws {
      try scene.write(file, text: RevocationListBuilder(revoking: [], number: number).pem(signedBy: authority.root))
    }

    func anchors(_ name: String, _ authority: TestAuthority, _ version: Int) throws {
      let others = version == 0 ? "" : try TestAuthority().root.certificate.pem
      try scene.write("\(name).pem", text: authority.root.certificate.pem + others)
    }
  }

  static func server(_ material: KeyMaterial) -> ServerTLSMaterial? { material.servers.first??.material }
  static func upstream(_ material: KeyMaterial) -> UpstreamTLSMaterial? { material.upstreams.values.first?.material }
  static func secret(_ bytes: SecretBytes) -> AnyHashable { bytes.withUnsafeBytes { Array($0) } }

  static let all: [Kind] = [
    Kind(
      name: "certificate", write: { _ = try $0.scene.identity("server", $0.authority.server(names: ["v\($1)"])) },
      file: "server.key", look: { server($0)?.certificates.map { AnyHashable($0.certificate) } ?? [] }),
    Kind(
      name: "CA", write: { try $0.anchors("ca", $0.authority, $1) }, file: "ca.pem",
      look: { server($0)?.clientCAs.map { AnyHashable($0) } ?? [] }),
    Kind(
      name: "list", write: { try $0.list($0.authority, "crl.pem", $1 + 1) }, file: "crl.pem",
      look: { server($0)?.revocations.map { AnyHashable($0.sha256) } ?? [] }),
    Kind(
      name: "pins", write: { cast, _ in try cast.scene.write("pins.pem", text: TestAuthority().root.certificate.pem) },
      file: "pins.pem", look: { [AnyHashable(server($0)?.clientPins?.digest)] }),
    Kind(
      name: "ticket key",
      write: { cast, _ in try cast.scene.write("ticket.key", (0..<80).map { _ in UInt8.random(in: 0...255) }) },
      file: "ticket.key", look: { $0.units.all(TLSUnit.Ticket.self).values.map { secret($0.name) } }),
    Kind(
      name: "OCSP response", write: { try $0.scene.write("staple.der", text: "version \($1)") }, file: "staple.der",
      look: { $0.units.all(TLSUnit.Response.self).values.map { secret($0) } }),
    Kind(
      name: "pass phrases", write: { try $0.scene.write("pass.txt", text: "version \($1)\n") }, file: "pass.txt",
      look: { $0.units.all(TLSUnit.Passwords.self).values.flatMap { $0.map { secret($0) } } }),
    Kind(
      name: "upstream's CA", write: { try $0.anchors("upca", $0.upstreamAuthority, $1) }, file: "upca.pem",
      look: { upstream($0)?.policy.anchors?.certificates.map { AnyHashable($0) } ?? [] }),
    Kind(
      name: "upstream's list", write: { try $0.list($0.upstreamAuthority, "up.crl", $1 + 1) }, file: "up.crl",
      look: { upstream($0)?.policy.anchors?.revocations.map { AnyHashable($0.sha256) } ?? [] }),
    Kind(
      name: "upstream's pin",
      write: { cast, _ in try cast.scene.write("up.pem", text: TestAuthority().root.certificate.pem) },
      file: "up.pem", look: { [AnyHashable(upstream($0)?.policy.pins?.digest)] }),
    Kind(
      name: "certificate for upstreams",
      write: { cast, _ in _ = try cast.scene.identity("me", cast.authority.client()) },
      file: "me.pem", look: { [AnyHashable(upstream($0)?.identity?.certificate)] }),
    Kind(
      name: "users", write: { try $0.scene.write("users", text: "* user\($1):password\n") }, file: "users",
      look: { $0.parts[UpstreamUsers.self].files.values.map { AnyHashable(ObjectIdentifier($0)) } }),
    Kind(
      name: "envelope's key",
      write: { try $0.scene.write("envelope.key", text: String(repeating: "\($1 % 10)", count: 64)) },
      file: "envelope.key",
      look: { $0.units.all(EnvelopeUnit.self).values.map { AnyHashable($0.identity) } }),
    Kind(
      name: "signature's key",
      write: { try $0.scene.write("signature.key", text: String(repeating: "\($1 % 10)", count: 64)) },
      file: "signature.key", look: { $0.units.all(SigningUnit.self).values.map { AnyHashable($0.fingerprint) } }),
  ]
}

@Suite struct `Units of material` {
  private let configuration = """
    events {}
    http {
    server { listen 1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key; ssl_password_file pass.txt;
      ssl_client_certificate ca.pem; ssl_verify_client on; ssl_crl crl.pem; ssl_client_pin pins.pem;
      ssl_session_ticket_key ticket.key; ssl_stapling on; ssl_stapling_file staple.der; ssl_trusted_certificate root.pem;
      location /signed { message_signature verify; message_signature_key k hmac-sha256 signature.key;
        proxy_pass http://127.0.0.1:2; }
      location /sealed { message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key envelope.key;
        message_envelope_mac none; proxy_pass http://127.0.0.1:2; }
      location /asked { proxy_auth basic; proxy_auth_user_file users; proxy_pass http://127.0.0.1:2; }
      location / { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate upca.pem; proxy_ssl_crl up.crl;
        proxy_ssl_pin up.pem; proxy_ssl_certificate me.pem; proxy_ssl_certificate_key me.key; } }
    }
    """

  /// `settings`: those of the configuration in this scene, for a test that loads many times.
  private func load(
    _ scene: Scene, _ settings: Settings? = nil, after former: KeyMaterial? = nil, newly: Bool = false
  ) throws -> KeyMaterial {
    var keeping = former.map { FormerMaterial($0) } ?? FormerMaterial()
    if newly { keeping.forgetUnwatched() }
    let settings = try settings ?? scene.settings(configuration)
    return KeyMaterial(loading: settings.http, keeping: keeping, sharing: SharedState(features: Features.all))
  }

  private func cast(_ scene: Scene) throws -> Kind.Cast {
    let cast = Kind.Cast(scene: scene, authority: try TestAuthority(), upstreamAuthority: try TestAuthority())
    try scene.anchors("root", cast.authority)
    for kind in Kind.all { try kind.write(cast, 0) }
    return cast
  }

  @Test(arguments: Kind.all)
  private func `one that is broken keeps its content, and every other one that changed takes effect`(
    broken: Kind
  ) throws {
    try withScene { scene in
      let cast = try cast(scene)
      let settings = try scene.settings(configuration)
      let first = try load(scene, settings)
      let errors = first.diagnostics.filter { $0.severity == .error }
      try #require(errors.isEmpty, "\(errors)")
      for kind in Kind.all { try #require(!kind.look(first).isEmpty, "\(kind.name)") }
      // What is mended after one step is what the next one begins with.
      var before = first, version = 0
      for newly in [false, true] {
        for other in Kind.all where other.name != broken.name {
          version += 1
          try scene.write(broken.file, text: broken.garbage)
          try other.write(cast, version)
          let next = try load(scene, settings, after: before, newly: newly)
          let words = "\(broken.name) is broken, \(other.name) changed"
          #expect(!next.diagnostics.contains { $0.severity == .error }, "\(words): \(next.diagnostics)")
          #expect(next.stale.map(\.files).joined().contains { $0.hasSuffix(broken.file) }, "\(words)")
          #expect(next.stale.count == 1 && next.stale.allSatisfy { $0.state == .changed }, "\(words): \(next.stale)")
          #expect(broken.look(next) == broken.look(before), "\(words)")
          #expect(other.look(next) != other.look(before), "\(words)")
          try broken.write(cast, version)
          before = try load(scene, settings, after: next)
          #expect(before.stale.isEmpty && broken.look(before) != broken.look(next), "\(words)")
        }
      }
    }
  }

  @Test(arguments: Kind.all)
  private func `one that is broken refuses a start, where nothing was loaded before`(broken: Kind) throws {
    try withScene { scene in
      _ = try cast(scene)
      try scene.write(broken.file, text: broken.garbage)
      let material = try load(scene)
      #expect(material.diagnostics.contains { $0.severity == .error } && material.stale.isEmpty)
    }
  }

  @Test func `a configuration that names a broken file newly is refused`() throws {
    try withScene { scene in
      _ = try cast(scene)
      var former = FormerMaterial(try load(scene))
      former.forgetUnwatched()
      try scene.write("new.pem", text: "half")
      let http = try scene.settings(configuration.replacing("ca.pem; ssl_verify", with: "new.pem; ssl_verify")).http
      let next = KeyMaterial(loading: http, keeping: former, sharing: SharedState(features: Features.all))
      #expect(next.diagnostics.filter { $0.severity == .error }.map(\.message).first?.contains("new.pem") == true)
    }
  }

  /// Not of this CA any more: no list counts, and that never means that nobody is revoked.
  @Test func `a CA with a new key takes effect at once, and without its list it lets nobody in`() throws {
    try withScene { scene in
      let cast = try cast(scene), first = try load(scene)
      let next = try TestAuthority()
      try scene.anchors("ca", next)
      try scene.anchors("root", next)
      let material = try load(scene, after: first)
      let server = try #require(material.servers.first ?? nil)
      #expect(server.material.clientCAs == [next.root.certificate] && server.material.revocations.isEmpty)
      #expect(server.context.clientPolicyDigest != first.servers.first??.context.clientPolicyDigest)
      #expect(material.stale.map(\.kind) == ["the revocation list"])
      try cast.list(next, "crl.pem", 1)
      let whole = try load(scene, after: material)
      #expect(whole.stale.isEmpty && whole.servers.first??.material.revocations.count == 1)
    }
  }

  /// The list in the stranger's place may be told again and again.
  @Test func `a list of a stranger keeps the CA's own for as long as it stands there`() throws {
    try withScene { scene in
      let cast = try cast(scene), first = try load(scene), stranger = try TestAuthority()
      try cast.list(stranger, "crl.pem", 100)
      var last = first
      for _ in 0..<3 {
        last = try load(scene, after: last)
        #expect(last.stale.count == 1)
        #expect(
          last.servers.first??.material.revocations.map(\.sha256)
            == first.servers.first??.material.revocations.map(\.sha256))
      }
      try cast.list(cast.authority, "crl.pem", 2)
      let mended = try load(scene, after: last)
      #expect(mended.stale.isEmpty && mended.servers.first??.material.revocations.map(\.number?.value) == [2])
    }
  }

  /// OpenSSL finds that only when it takes the key.
  @Test func `a certificate that OpenSSL refuses keeps the former one, beside a new list`() throws {
    try withScene { scene in
      let cast = try cast(scene), first = try load(scene)
      _ = try scene.identity("server", cast.authority.server(key: try .generate(.rsa(bits: 1024))))
      try cast.list(cast.authority, "crl.pem", 7)
      let next = try load(scene, after: first)
      #expect(!next.diagnostics.contains { $0.severity == .error }, "\(next.diagnostics)")
      #expect(next.stale.map(\.state) == [.changed], "\(next.stale)")
      let shown = next.servers.first??.context.certificates
      #expect(shown == first.servers.first??.context.certificates && shown?.isEmpty == false)
      #expect(next.servers.first??.material.revocations.map(\.number?.value) == [7])
    }
  }

  /// A reload of files leaves the block alone, and what HUP has found of it stays true.
  @Test func `a block with ssl_reload off stays told of until HUP finds it mended`() throws {
    try withScene { scene in
      let cast = try cast(scene)
      let text = configuration.replacing("listen 1 ssl;", with: "listen 1 ssl; ssl_reload off;")
      func load(after former: KeyMaterial?, newly: Bool = false) throws -> KeyMaterial {
        var keeping = former.map { FormerMaterial($0) } ?? FormerMaterial()
        if newly { keeping.forgetUnwatched() }
        return KeyMaterial(
          loading: try scene.settings(text).http, keeping: keeping, sharing: SharedState(features: Features.all))
      }
      let first = try load(after: nil)
      try scene.write("crl.pem", text: "half")
      #expect(try load(after: first).stale.isEmpty)
      let broken = try load(after: first, newly: true)
      #expect(broken.stale.count == 1)
      let later = try load(after: broken)
      #expect(later.stale == broken.stale)
      try cast.list(cast.authority, "crl.pem", 2)
      #expect(try load(after: later).stale == broken.stale)
      #expect(try load(after: later, newly: true).stale.isEmpty)
    }
  }

  /// What is taken out of the folder is a revocation.
  @Test func `each file of a folder of pins counts by itself`() throws {
    try withScene { scene in
      _ = try cast(scene)
      try scene.makeFolder("pins")
      let all = try (0..<4).map { _ in try TestAuthority().root.certificate }
      for (index, pin) in all.prefix(3).enumerated() { try scene.write("pins/\(index).pem", text: pin.pem) }
      let text = configuration.replacing("ssl_client_pin pins.pem", with: "ssl_client_pin pins")
      func load(after former: KeyMaterial?) throws -> KeyMaterial {
        let keeping = former.map { FormerMaterial($0) } ?? FormerMaterial()
        return KeyMaterial(
          loading: try scene.settings(text).http, keeping: keeping, sharing: SharedState(features: Features.all))
      }
      func pins(_ material: KeyMaterial) -> [Bool] {
        all.map { pin in material.servers.first??.material.clientPins?.matches(leaf: pin) ?? false }
      }
      let first = try load(after: nil)
      #expect(pins(first) == [true, true, true, false], "\(first.diagnostics)")
      try scene.write("pins/0.pem", text: "half")
      unlink(scene.path("pins/1.pem"))
      try scene.write("pins/3.pem", text: "half")
      let next = try load(after: first)
      #expect(pins(next) == [true, false, true, false], "\(next.diagnostics)")
      #expect(next.stale.count == 2 && !next.diagnostics.contains { $0.severity == .error })
      try scene.write("pins/3.pem", text: all[3].pem)
      try scene.write("pins/0.pem", text: all[0].pem)
      let mended = try load(after: next)
      #expect(pins(mended) == [true, false, true, true] && mended.stale.isEmpty)
    }
  }
}
