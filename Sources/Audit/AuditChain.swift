import Bytes
package import Crypto
import Observability

/// The end of a chain of lines: each line has the SHA-256 of the one before, so that none can be changed, removed, inserted
/// or moved without a change of all that follow.
///
///     {"n":7,"time":"2026-11-30T02:24:21.123Z","process":"1f0c…","event":"admission",…,"prev":"<SHA-256 of line 6>"}
///
/// A value without a file: whoever writes gives the lines to a disk, and keeps the former value until they are there.
package struct AuditChain: Sendable, Equatable {
  /// The number of the last line; 0: there is none.
  package private(set) var number: Int64
  /// The SHA-256 of the last line, without its line feed.
  package private(set) var hash: [UInt8]

  /// What the first line of a chain has in place of a line before.
  package static let origin = [UInt8](repeating: 0, count: 32)

  package init(number: Int64 = 0, hash: [UInt8] = origin) {
    self.number = number
    self.hash = hash
  }

  /// Makes the next line, with its line feed. `process`: who writes it.
  package mutating func line(_ event: AuditEvent, by process: String) -> [UInt8] {
    var json = JSONText()
    let next = number &+ 1
    json.object { json in
      json.member("n", next)
      json.member("time", AuditTime.text(event.moment))
      json.member("process", process)
      json.member("event", event.kind.rawValue)
      for member in event.members {
        switch member.value {
        case .text(let text): json.member(member.name, text)
        case .number(let number): json.member(member.name, number)
        case .flag(let flag): json.member(member.name, flag)
        }
      }
      json.member("prev", Hex.encode(hash))
    }
    let bytes = Array(json.text.utf8)
    number = next
    hash = Digest.of(bytes)
    return bytes + [0x0A]
  }

  /// Makes a line that signs all lines before it; nil if OpenSSL can't sign.
  package mutating func signature(by key: SignatureKey, at moment: Int64, process: String) -> [UInt8]? {
    guard let signature = key.sign(Self.signed(number: number &+ 1, prev: hash)) else { return nil }
    var event = AuditEvent(.signature, at: moment)
    event.add("key", Self.name(of: key))
    event.add("signature", Hex.encode(signature))
    return line(event, by: process)
  }

  /// What a signature signs: the number of its line, and the hash of the line before, on which all others hang.
  static func signed(number: Int64, prev: [UInt8]) -> [UInt8] {
    Array("sallyport audit log 1\n\(number)\n\(Hex.encode(prev))\n".utf8)
  }

  /// The name of a key in a line: the first octets of its SHA-256.
  static func name(of key: SignatureKey) -> String { Hex.encode(Array(key.fingerprint.prefix(8))) }
}
