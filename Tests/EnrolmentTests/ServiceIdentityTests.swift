import Crypto
import Foundation
import TestSupport
import Testing

@testable import Enrolment

@Suite struct `Identities of services` {
  private static let tokens = ["api": String(repeating: "a1", count: 32), "web": String(repeating: "b2", count: 32)]

  /// The keeper of a folder `authority`, and the sidecars of services, each with a folder of its own.
  private final class Mesh {
    let scene: Scene
    var identities: ServiceIdentities

    init(_ scene: Scene) throws {
      self.scene = scene
      identities = try ServiceIdentities(in: scene.path("authority"), tokens: Self.read(tokens))
    }

    static func read(_ tokens: [String: String]) throws -> [String: JoinToken] {
      try tokens.mapValues { try #require(JoinToken($0)) }
    }

    func member(
      _ name: String, _ tokens: [String: String] = tokens, folder: String? = nil
    ) throws -> ServiceMember {
      let token = try #require(tokens[name].flatMap(JoinToken.init))
      return try ServiceMember(name, token, in: scene.path(folder ?? name))
    }

    /// Has a sidecar ask, and take the answer. Returns what the keeper tells.
    @discardableResult
    func ask(_ member: inout ServiceMember, at now: Int64) throws -> [String] {
      let question = try member.question()
      let (answer, told) = try #require(try identities.answer(question, at: now))
      #expect(try member.take(answer))
      return told
    }

    func certificate(_ name: String) throws -> Certificate {
      try #require(Certificate.loadAll(MaterialReference(path: scene.path("\(name)/identity.pem"))).first)
    }

    func list(_ name: String) throws -> RevocationList {
      try #require(RevocationList.loadAll(MaterialReference(path: scene.path("\(name)/crl.pem"))).first)
    }
  }

  private func withMesh(_ body: (Mesh, Int64) throws -> Void) throws {
    let scene = try Scene()
    defer { scene.end() }
    try body(Mesh(scene), Int64(time(nil)))
  }

  @Test func `each has a certificate of an hour for its own key, which is renewed in time and not before`() throws {
    try withMesh { mesh, now in
      var api = try mesh.member("api")
      #expect(!api.isReady(at: now))
      #expect(try mesh.ask(&api, at: now).count == 2)
      #expect(api.isReady(at: now) && !api.isReady(at: now + 3600) && api.note.isEmpty)
      let first = try mesh.certificate("api")
      #expect(first.subjectAltNames.all.map(\.description) == ["api"])
      #expect(try #require(first.notAfter.seconds) == now + 3600)
      #expect(try mesh.ask(&api, at: now + 1700).isEmpty)
      #expect(try mesh.certificate("api") == first)
      #expect(try mesh.ask(&api, at: now + 1801).count == 1)
      let second = try mesh.certificate("api")
      #expect(second != first && second.publicKey == first.publicKey)
      // Both start anew, and go on.
      mesh.identities = try ServiceIdentities(in: mesh.scene.path("authority"), tokens: Mesh.read(Self.tokens))
      api = try mesh.member("api")
      #expect(api.isReady(at: now + 1802))
      #expect(try mesh.ask(&api, at: now + 1802).isEmpty)
      let place = { (name: String) in MaterialReference(path: mesh.scene.path("api/\(name)")) }
      let pair = try CertifiedKey.load(
        certificate: place("identity.pem"), key: place("key.pem"), tokens: TokenRefusals())
      #expect(pair.certificate == second)
    }
  }

  @Test(arguments: ["ca.pem", "issued"])
  func `a file that can't be looked at isn't missing, so nothing begins anew`(name: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    _ = try Mesh(scene)
    let path = scene.path("authority/\(name)")
    unlink(path)
    // A link to itself: no call gets through it, for root neither.
    #expect(symlink(path, path) == 0)
    #expect(throws: AuthorityError.self) {
      try ServiceIdentities(in: scene.path("authority"), tokens: Mesh.read(Self.tokens))
    }
  }

  @Test func `what a clock that was set back has dated in the future is made anew`() throws {
    try withMesh { mesh, now in
      var api = try mesh.member("api")
      try mesh.ask(&api, at: now + 86_400)
      let (early, former) = (try mesh.certificate("api"), mesh.scene.bytes("api/crl.pem"))
      #expect(try mesh.ask(&api, at: now).count == 1)
      let present = try mesh.certificate("api")
      let begin = try #require(present.notBefore.seconds)
      #expect(present != early && begin <= now)
      #expect(mesh.scene.bytes("api/crl.pem") != former)
      #expect(try mesh.ask(&api, at: now + 1).isEmpty)
      let dates: [Int64] = [.min, .max, 0, now + 1, now - 43_201]
      #expect(dates.allSatisfy { ServiceIdentities.isOld(listOf: $0, at: now) })
      #expect(!ServiceIdentities.isOld(listOf: now, at: now) && !ServiceIdentities.isOld(listOf: now - 43_200, at: now))
      #expect(ServiceIdentities.isOld(listOf: .min, at: .max) && ServiceIdentities.isOld(listOf: .max, at: .min))
    }
  }

  @Test func `a token admits one key, over any time, and a new token the key that comes with it`() throws {
    try withMesh { mesh, now in
      var api = try mesh.member("api")
      try mesh.ask(&api, at: now)
      let first = try mesh.certificate("api")
      // A thief of the override.
      var thief = try mesh.member("api", folder: "thief")
      #expect(try mesh.ask(&thief, at: now + 1).contains { $0.contains("another key has used its token") })
      #expect(!thief.isReady(at: now) && thief.note.contains("another key") && !api.note.contains("another key"))
      #expect(try mesh.ask(&thief, at: now + 2).isEmpty, "it is told once")
      // A machine that was off over the week-end comes back by the same token and key.
      #expect(try mesh.ask(&api, at: now + 200_000).count == 1)
      #expect(api.isReady(at: now + 200_000))
      // Its volume is lost: a new override has a new token, and what the lost key has is revoked.
      let tokens = Self.tokens.merging(["api": String(repeating: "c3", count: 32)]) { $1 }
      mesh.identities = try ServiceIdentities(in: mesh.scene.path("authority"), tokens: Mesh.read(tokens))
      let second = try mesh.certificate("api")
      var next = try mesh.member("api", tokens, folder: "next")
      #expect(try mesh.ask(&next, at: now + 200_001).contains { $0.contains("replaced") })
      let list = try mesh.list("next")
      #expect(list.revokes(second) && !list.revokes(first), "what has ended need not be listed")
      #expect(try mesh.identities.answer(api.question(), at: now + 200_002) == nil, "the old token is worth nothing")
    }
  }

  @Test func `a sidecar keeps to the first authority, so a stolen token brings it no other`() throws {
    try withMesh { mesh, now in
      var api = try mesh.member("api")
      try mesh.ask(&api, at: now)
      let authority = mesh.scene.bytes("api/ca.crt")
      // Whoever has the token answers in the keeper's place.
      var other = try ServiceIdentities(in: mesh.scene.path("other"), tokens: Mesh.read(Self.tokens))
      for _ in 0..<2 {
        let answer = try #require(try other.answer(api.question(), at: now + 1801)).bytes
        #expect(throws: AuthorityError.self) { try api.take(answer) }
        #expect(mesh.scene.bytes("api/ca.crt") == authority)
        // A sidecar that starts anew knows it, too.
        api = try mesh.member("api")
      }
      try mesh.ask(&api, at: now + 1802)
      // With a new token it takes a new authority.
      let tokens = Self.tokens.merging(["api": String(repeating: "c3", count: 32)]) { $1 }
      other = try ServiceIdentities(in: mesh.scene.path("other"), tokens: Mesh.read(tokens))
      api = try mesh.member("api", tokens)
      #expect(try api.take(#require(try other.answer(api.question(), at: now + 1803)).bytes))
      #expect(mesh.scene.bytes("api/ca.crt") != authority && api.isReady(at: now + 1803))
      let anchors = try Certificate.loadAll(MaterialReference(path: mesh.scene.path("api/ca.crt")))
      let certificate = try mesh.certificate("api")
      #expect(anchors.count == 1 && anchors[0].issued(certificate))
    }
  }

  @Test func `a stopped one is on the list of all, with each certificate that is valid still, and gets no successor`()
    throws
  {
    try withMesh { mesh, now in
      var (api, web) = (try mesh.member("api"), try mesh.member("web"))
      for time in [now, now + 1801] {
        try mesh.ask(&api, at: time)
        try mesh.ask(&web, at: time)
      }
      let (second, other) = (try mesh.certificate("api"), try mesh.certificate("web"))
      let folder = mesh.scene.path("authority")
      try ServiceIdentities.set("api", isStopped: true, in: folder)
      #expect(try mesh.identities.keepUp(at: now + 1802).count == 2)
      for (name, time) in [("web", now + 1802), ("api", now + 1803)] {
        if name == "web" { try mesh.ask(&web, at: time) } else { try mesh.ask(&api, at: time) }
        let list = try mesh.list(name)
        #expect(list.revokes(second) && !list.revokes(other))
      }
      #expect(api.note.contains("stopped") && web.note.isEmpty)
      #expect(try mesh.certificate("api") == second)
      // A new identity doesn't bring the old ones back.
      try ServiceIdentities.set("api", isStopped: false, in: folder)
      #expect(try mesh.ask(&api, at: now + 3500).contains { $0.hasPrefix("api: certificate ") })
      try mesh.ask(&web, at: now + 3501)
      let (third, list) = (try mesh.certificate("api"), try mesh.list("web"))
      #expect(third != second && list.revokes(second) && !list.revokes(third) && api.note.isEmpty)
      #expect(throws: AuthorityError.self) { try ServiceIdentities.set("../x", isStopped: true, in: folder) }
    }
  }

  @Test func `late and lost answers cost no certificate, and sidecars that end without theirs cost a few`() throws {
    try withMesh { mesh, now in
      var api = try mesh.member("api")
      let first = try #require(try mesh.identities.answer(api.question(), at: now))
      for second in 1..<10 {
        let again = try #require(try mesh.identities.answer(api.question(), at: now + Int64(second)))
        #expect(again.told.isEmpty && again.bytes == first.bytes)
      }
      #expect(try api.take(first.bytes) && api.isReady(at: now))
      #expect(try !api.take(first.bytes), "once")
      unlink(mesh.scene.path("api/identity.pem"))
      for second in 10..<14 {
        var ended = try mesh.member("api")
        _ = try mesh.identities.answer(ended.question(), at: now + Int64(second))
      }
      api = try mesh.member("api")
      try mesh.ask(&api, at: now + 14)
      #expect(api.note.contains("4 certificates of the last hour") && !api.isReady(at: now))
      try mesh.ask(&api, at: now + 3605)
      #expect(api.isReady(at: now + 3605) && api.note.isEmpty)
    }
  }

  @Test func `a datagram that is changed, another's, or of another question gets no answer and is none`() throws {
    try withMesh { mesh, now in
      var (api, web) = (try mesh.member("api"), try mesh.member("web"))
      let question = try api.question()
      let answer = try #require(try mesh.identities.answer(question, at: now)).bytes
      for index in question.indices {
        var changed = question
        changed[index] ^= 1
        #expect(try mesh.identities.answer(changed, at: now) == nil, "\(index)")
        #expect(try mesh.identities.answer(Array(question[..<index]), at: now) == nil)
      }
      for index in answer.indices {
        var changed = answer
        changed[index] ^= 1
        #expect(try !api.take(changed), "\(index)")
      }
      _ = try web.question()
      #expect(try !web.take(answer))
      #expect(try !api.take(question))
      // An answer to a question of before.
      #expect(try api.take(answer) && api.isReady(at: now))
      _ = try api.question()
      #expect(try !api.take(answer))
      #expect(try mesh.identities.answer(answer, at: now) == nil)
      #expect(try mesh.identities.answer(Array(repeating: 0, count: 65_000), at: now) == nil)
      #expect(try mesh.identities.answer([], at: now) == nil)
    }
  }

  @Test func `tokens are read from NAME=TOKEN, each name once`() throws {
    let token = Self.tokens["api"] ?? ""
    #expect(try JoinToken.all(in: "api=\(token) web=\(token)").count == 2)
    for bad in ["", "api", "api=12", "API=\(token)", "api=\(token) api=\(token)", "=\(token)", "api=\(token)0"] {
      #expect(throws: AuthorityError.self, "\(bad)") { try JoinToken.all(in: bad) }
    }
    let made = try #require(JoinToken.make())
    #expect(JoinToken(made) != nil && JoinToken.make() != made)
  }
}
