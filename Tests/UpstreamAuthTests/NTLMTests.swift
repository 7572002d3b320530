import Bytes
import Testing

@testable import UpstreamAuth

@Suite struct `NTLM answers` {
  @Test(arguments: [
    ("", "31d6cfe0d16ae931b73c59d7e0c089c0"), ("a", "bde52cb31de33e46245e05fbdbd6fb24"),
    ("abc", "a448017aaf21d8525fc10ae87aa6729d"), ("message digest", "d9130a8164549fe818874806e1c7014b"),
    ("abcdefghijklmnopqrstuvwxyz", "d79e1c308aa5bbcdeea8ed63df412da9"),
    ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "043f8582f241db351ce627e153e7f0e4"),
    (
      "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
      "e33b4ddc9c38f2199c3e7b164fcc0536"
    ),
  ])
  func `MD4 is RFC 1320's`(text: String, digest: String) { #expect(Hex.encode(MD4.of(bytes(text))) == digest) }

  @Test func `MD4 of every length around a block's end`() {
    for count in 54...66 { #expect(MD4.of([UInt8](repeating: 7, count: count)).count == 16) }
  }

  /// MS-NLMP §4.2.1 and §4.2.4.
  private var example: (user: UpstreamUser, challenge: NTLMChallenge?, circumstances: NTLMAnswer.Circumstances) {
    var message = NTLM.signature
    message.append(uint32: 2)
    message.append(uint16: 12)
    message.append(uint16: 12)
    message.append(uint32: 0x38)
    message.append(uint32: 0xE28A_8233)
    message += [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF] + [UInt8](repeating: 0, count: 8)
    message.append(uint16: 0x24)
    message.append(uint16: 0x24)
    message.append(uint32: 0x44)
    message += [6, 0, 0x70, 0x17, 0, 0, 0, 0x0F]
    message += utf16("Server")
    for (id, text) in [(2, "Domain"), (1, "Server")] { message += [UInt8(id), 0, 12, 0] + utf16(text) }
    message += [0, 0, 0, 0]
    return (
      user("Domain\\User", "Password"), NTLMChallenge(message),
      NTLMAnswer.Circumstances(
        clientChallenge: [UInt8](repeating: 0xAA, count: 8), time: [UInt8](repeating: 0, count: 8), target: "",
        endPoint: nil)
    )
  }

  private func utf16(_ text: String) -> [UInt8] { text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] } }

  @Test func `MS-NLMP section 4_2_4: response key, proof and session key`() throws {
    let (user, challenge, circumstances) = example
    let key = try #require(NTLMAnswer.responseKey(user))
    #expect(Hex.encode(key) == "0c868a403bfd7a93a3001ef22ef02e3f")
    let whole = try #require(challenge)
    let proof = try #require(NTLMAnswer.Proof(key, whole, circumstances))
    #expect(Hex.encode(Array(proof.response.prefix(16))) == "68cd0ab851e51c96aabc927bebef6a1c")
    #expect(Hex.encode(proof.sessionKey) == "8de40ccadbc14a82f15cb0ad0de95ca3")
    #expect(
      try Array(proof.response.dropFirst(16))
        == hex(
          """
          01010000 00000000 00000000 00000000 aaaaaaaa aaaaaaaa 00000000 02000c00 44006f00 6d006100 69006e00
          01000c00 53006500 72007600 65007200 00000000 00000000
          """))
  }

  @Test func `MS-NLMP section 4_2_4: the LMv2 response and the message around it`() throws {
    let (user, challenge, circumstances) = example
    let whole = try #require(challenge)
    let message = try #require(NTLMAnswer.authenticate(user, whole, circumstances))
    #expect(message.starts(with: NTLM.signature) && message.uint32(8) == 3)
    func field(_ at: Int) -> [UInt8]? {
      message.slice(Int(message.uint32(at + 4) ?? 0), Int(message.uint16(at) ?? 0))
    }
    #expect(try field(12) == hex("86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa"))
    #expect(field(20).map { Hex.encode(Array($0.prefix(16))) } == "68cd0ab851e51c96aabc927bebef6a1c")
    #expect(field(28) == utf16("Domain") && field(36) == utf16("User") && field(44) == [] && field(52) == [])
    // No key exchange, no signing: there is no session.
    #expect((message.uint32(60) ?? 0) & 0x4000_0030 == 0)
  }

  @Test func `a server that sends its time gets a MIC, its channel and its name`() throws {
    let (user, challenge, base) = example
    var message = try #require(challenge).message
    let time: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
    message.removeLast(4)
    message += [7, 0, 8, 0] + time + [0, 0, 0, 0]
    message[40] = 0x30
    let stamped = try #require(NTLMChallenge(message))
    var circumstances = base
    circumstances.target = "HTTP/up.test"
    circumstances.endPoint = [UInt8](repeating: 9, count: 32)
    let answer = try #require(NTLMAnswer.authenticate(user, stamped, circumstances))
    let at = Int(answer.uint32(24) ?? 0), count = Int(answer.uint16(20) ?? 0)
    let response = try #require(answer.slice(at, count))
    #expect(response.slice(24, 8) == time)
    let text = Hex.encode(response)
    #expect(text.contains("0600040002000000"))
    #expect(text.contains("09001800" + Hex.encode(utf16("HTTP/up.test"))))
    #expect(text.contains("0a001000") && !text.contains("0a001000" + String(repeating: "0", count: 32)))
    #expect(Array(answer[12..<20]) == [24, 0, 24, 0, 88, 0, 0, 0])
    #expect(answer.slice(88, 24) == [UInt8](repeating: 0, count: 24))
    // MS-NLMP §3.1.5.1.2: the MIC is over the three messages, with zeros in its place.
    let key = try #require(NTLMAnswer.responseKey(user))
    let session = try #require(NTLMAnswer.Proof(key, stamped, circumstances)).sessionKey
    var blank = answer
    blank.replaceSubrange(72..<88, with: [UInt8](repeating: 0, count: 16))
    let all: [UInt8] = NTLMAnswer.negotiate + message + blank
    #expect(answer.slice(72, 16) == hmac(session, all))
  }

  @Test func `user and domain are told apart, and only the user is in capitals`() {
    #expect(user("D\\u", "").domainAndName == ("D", "u"))
    #expect(user("u@d.test", "").domainAndName == ("", "u@d.test"))
    #expect(NTLMAnswer.responseKey(user("d\\üser", "p")) == NTLMAnswer.responseKey(user("d\\ÜSER", "p")))
    #expect(NTLMAnswer.responseKey(user("d\\u", "p")) != NTLMAnswer.responseKey(user("D\\u", "p")))
    #expect(NTLMAnswer.responseKey(user("d\\ß", "p")) != NTLMAnswer.responseKey(user("d\\SS", "p")))
  }

  @Test func `a challenge cut anywhere, or with an offset outside, is none`() throws {
    let message = try #require(example.challenge).message
    for count in 0..<message.count { #expect(NTLMChallenge(Array(message[..<count])) == nil, "\(count)") }
    for (at, value) in [(44, 0xFF), (45, 0xFF), (47, 0xFF), (41, 0xFF), (8, 3), (0, 0), (20, 0x32), (40, 1)] {
      var broken = message
      broken[at] = UInt8(value)
      #expect(NTLMChallenge(broken) == nil, "\(at)")
    }
    #expect(NTLMChallenge(message + [UInt8](repeating: 0, count: 9000)) == nil)
  }
}
