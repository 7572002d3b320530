import Bytes
import Glibc
import TestSupport
import Testing

@testable import Crypto

@Suite struct `Revocation lists` {
  private func lists(_ pem: String) throws -> [RevocationList] {
    let scene = try Scene()
    defer { scene.end() }
    return try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", text: pem)))
  }

  private func refusal(_ bytes: [UInt8]) throws -> String {
    let scene = try Scene()
    defer { scene.end() }
    do {
      _ = try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", bytes)))
      return ""
    } catch { return "\(error)" }
  }

  @Test func `several lists of one file are all taken`() throws {
    let a = try TestAuthority("A"), b = try TestAuthority("B")
    let builder = RevocationListBuilder(revoking: [try a.client().certificate])
    let both = try lists(builder.pem(signedBy: a.root) + RevocationListBuilder(revoking: []).pem(signedBy: b.root))
    #expect(both.map(\.issuer) == ["CN=A Root", "CN=B Root"])
    #expect(both.map(\.count) == [1, 0])
    #expect(!both[0].isExpired(at: Int64(time(nil))))
    #expect(both[0].nextUpdateText.hasSuffix("GMT"))
  }

  @Test func `a list as DER is taken`() throws {
    let pem = try RevocationListBuilder(revoking: []).pem(signedBy: TestAuthority().root)
    let block = try Array(pem.utf8).withBytes { (raw) throws(CryptoError) in try PEMBlock.all(in: raw)[0] }
    let scene = try Scene()
    defer { scene.end() }
    let path = try scene.write("crl.der", block.contents.withUnsafeBytes { Array($0) })
    #expect(try RevocationList.loadAll(MaterialReference(path: path)).count == 1)
  }

  @Test func `a delta list is refused by name`() throws {
    var builder = RevocationListBuilder(revoking: [])
    builder.isDelta = true
    let fault = try refusal(Array(builder.pem(signedBy: TestAuthority().root).utf8))
    #expect(fault.contains("a delta revocation list"))
  }

  @Test func `what is no list is told`() throws {
    let root = try TestAuthority().root
    #expect(try refusal(Array(root.certificate.pem.utf8)).contains("holds no revocation list"))
    #expect(try refusal(Array("nothing".utf8)).contains("neither PEM nor DER"))
    #expect(try refusal([0x30, 3, 2, 1, 1]).contains("not a DER revocation list"))
    let pem = try RevocationListBuilder(revoking: []).pem(signedBy: root)
    #expect(try refusal(Array(pem.utf8.dropLast(60))).contains("damaged PEM"))
  }

  @Test func `an expired list does not take the place of a valid one of its issuer`() throws {
    let a = try TestAuthority("A"), b = try TestAuthority("B")
    let now = Int64(time(nil))
    func list(_ authority: TestAuthority, _ number: Int, ends: Int64) throws -> RevocationList {
      var builder = RevocationListBuilder(revoking: [], number: number)
      builder.thisUpdate = now - 7200
      builder.nextUpdate = now + ends
      return try lists(builder.pem(signedBy: authority.root))[0]
    }
    let old = try list(a, 1, ends: 3600), ended = try list(a, 2, ends: -60), fresh = try list(a, 3, ends: 7200)
    let other = try list(b, 1, ends: -60)
    func taken(_ new: [RevocationList], _ before: [RevocationList]) -> [[UInt8]] {
      RevocationList.taking(new, after: before, among: [], now: now).lists.map(\.sha256)
    }
    #expect(taken([ended], [old]) == [ended.sha256, old.sha256])
    #expect(taken([fresh], [old]) == [fresh.sha256])
    #expect(taken([ended, fresh], [old]) == [ended.sha256, fresh.sha256])
    #expect(taken([other], [old]) == [other.sha256])
    #expect(taken([ended], [ended]) == [ended.sha256])
    #expect(taken([], [old]) == [])
    // One of before is no successor, however valid; nor is one of the future.
    var builder = RevocationListBuilder(revoking: [], number: 0)
    builder.thisUpdate = now - 9000
    let older = try lists(builder.pem(signedBy: a.root))[0]
    builder.thisUpdate = now + 9000
    let future = try lists(builder.pem(signedBy: a.root))[0]
    #expect(taken([older], [old]) == [older.sha256, old.sha256])
    #expect(taken([future], [old]) == [future.sha256, old.sha256])
  }

  @Test func `the number decides which list is newer, and thisUpdate where one has none or both are of two keys`()
    throws
  {
    let a = try TestAuthority("A"), other = try TestAuthority("A"), now = Int64(time(nil))
    func list(_ number: Int, made: Int64 = 3600, ends: Int64 = 3600, by authority: TestAuthority? = nil) throws
      -> RevocationList
    {
      var builder = RevocationListBuilder(revoking: [], number: number)
      builder.thisUpdate = now - made
      builder.nextUpdate = now + ends
      return try lists(builder.pem(signedBy: (authority ?? a).root))[0]
    }
    func kept(_ fresh: RevocationList, after old: RevocationList) -> Bool {
      !RevocationList.taking([fresh], after: [old], among: [], now: now).kept.isEmpty
    }
    func deciding(_ all: RevocationList...) -> [[UInt8]] {
      RevocationList.deciding(all, among: [], now: now).map(\.sha256)
    }
    let seven = try list(7), five = try list(5), late = try list(6, made: 60), early = try list(8, made: 7200)
    // Of equal and of later thisUpdate: the list in use stays, and OpenSSL gets no other one.
    for older in [five, late] {
      #expect(kept(older, after: seven))
      #expect(deciding(older, seven) == [seven.sha256] && deciding(seven, older) == [seven.sha256])
    }
    #expect(!kept(early, after: seven) && deciding(seven, early) == [early.sha256])
    #expect(try !kept(list(7, made: 60), after: seven) && kept(list(7, made: 7200), after: seven))
    // An ended list with the greater number: whom it names stays refused, and the valid one serves.
    let ended = try list(9, made: 7200, ends: -60)
    #expect(kept(five, after: ended) && deciding(five, ended) == [five.sha256, ended.sha256])
    #expect(try !kept(list(9), after: ended) && !kept(list(10), after: ended))
    #expect(try deciding(list(4, ends: -60), seven).count == 2)
    // Two keys of one name count apart, and a list of the future does not decide yet.
    let renewed = try list(1, made: 60, by: other)
    #expect(!kept(renewed, after: seven) && deciding(renewed, seven).count == 2)
    #expect(try deciding(five, list(11, made: -200)).count == 2)
    // Octets, not words: RFC 5280 §5.2.3 allows 20 of them.
    #expect(try list(Int.max).number?.value == Int.max && list(256).number?.description == "256")
    #expect(try kept(list(255), after: list(256)) && !kept(list(0x1_0000), after: list(0xFFFF)))
    #expect(try refusal(Array(pem(number: -1).utf8)).contains("whose number can't be read"))
  }

  private func pem(number: Int) throws -> String {
    try RevocationListBuilder(revoking: [], number: number).pem(signedBy: TestAuthority().root)
  }

  @Test func `a list is disowned when the CA of its name is at hand and has not signed it`() throws {
    let authority = try TestAuthority("A"), stranger = try TestAuthority("A"), other = try TestAuthority("B")
    let list = try lists(RevocationListBuilder(revoking: []).pem(signedBy: authority.root))[0]
    #expect(!list.isDisowned(by: [authority.root.certificate]))
    #expect(list.isDisowned(by: [stranger.root.certificate]))
    // After a renewal of its key both may be named, and either may have signed.
    #expect(!list.isDisowned(by: [stranger.root.certificate, authority.root.certificate]))
    #expect(!list.isDisowned(by: [other.root.certificate]))
    #expect(!list.isDisowned(by: []))
    let below = try lists(RevocationListBuilder(revoking: []).pem(signedBy: authority.intermediate))[0]
    #expect(!below.isDisowned(by: [authority.root.certificate]))
    #expect(!below.isDisowned(by: [authority.intermediate.certificate]))
    #expect(below.isDisowned(by: [stranger.intermediate.certificate]))
  }

  @Test func `anchors are found by the name of a list's issuer, all of that name`() throws {
    let authority = try TestAuthority("A"), stranger = try TestAuthority("A"), other = try TestAuthority("B")
    let list = try lists(RevocationListBuilder(revoking: []).pem(signedBy: authority.root))[0]
    func found(_ certificates: [Certificate]) throws -> Set<Certificate> {
      Set(try TrustAnchors(.certificates(certificates)).named(asIssuerOf: list))
    }
    let both = [authority.root.certificate, stranger.root.certificate]
    #expect(try found(both + [other.root.certificate]) == Set(both))
    #expect(try found([other.root.certificate]).isEmpty)
    #expect(try TrustAnchors.system.get().named(asIssuerOf: list).isEmpty)
  }
}
