import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import Envelope

@Suite struct `Mutated envelopes` {
  /// SALLYPORT_MUTATIONS: how many in all.
  private static let count = getenv("SALLYPORT_MUTATIONS").flatMap { Int(String(cString: $0)) } ?? 20_000

  @Test(arguments: Parts.suites)
  func `are refused, or say what was sealed`(suite: EnvelopeSuite) throws {
    let keys = try #require(Parts.keys(suite, shift: 3, previous: 4))
    let opener = Opener(keys), plain = Array(Parts.plain.utf8)
    let sealed = try Sealer(requests: keys).sealed(plain)
    var random = SeededNumbers(seed: 42)
    var opened = 0
    for _ in 0..<Self.count / Parts.suites.count {
      var body = sealed
      for _ in 0..<Int.random(in: 1...3, using: &random) { Self.mutate(&body, &random) }
      guard body != sealed, case .success(let text) = opener.outcome(body) else { continue }
      opened += 1
      // Fields that nobody named are authenticated by nothing but GCM's tag: of them nothing is said here.
      if case .fields(let names) = suite.mac?.scope, !suite.cipher.isAuthenticated {
        #expect(Self.joined(text, names) == Self.joined(plain, names))
      } else {
        #expect(text == plain)
      }
    }
    #expect(opened < Self.count / Parts.suites.count / 4)
  }

  private static func joined(_ text: [UInt8], _ names: [[UInt8]]) -> [UInt8] {
    text.withUnsafeBytes { FieldsText($0, names: names).joined.octets }
  }

  private static func mutate(_ body: inout [UInt8], _ random: inout SeededNumbers) {
    guard !body.isEmpty else { return }
    let at = Int.random(in: 0..<body.count, using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0: body[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 1: body[at] = UInt8.random(in: 0...255, using: &random)
    case 2: body[at] = Array("ABCxyz09+/=\"{}[],:".utf8).randomElement(using: &random) ?? 0
    case 3: body.remove(at: at)
    case 4: body.insert(UInt8.random(in: 0x20...0x7E, using: &random), at: at)
    default:
      let end = min(body.count, at + Int.random(in: 1...24, using: &random))
      body.replaceSubrange(at..<end, with: body[..<(end - at)])
    }
  }
}
