import Bytes

/// RFC 1320, only for NTLM, whose key is the MD4 of the password (MS-NLMP §3.3.1).
///
/// OpenSSL 3 has MD4 only in the legacy provider, a file that a minimal image or a FIPS build lacks. NTLM would then
/// work where it was tested and fail in production. MD4 itself gives no security: docs/decisions/0015.
enum MD4 {
  static func of(_ message: [UInt8]) -> [UInt8] {
    var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476]
    var padded = message + [0x80]
    defer { padded.wipe() }
    padded += [UInt8](repeating: 0, count: (120 - padded.count % 64) % 64)
    let bits = UInt64(message.count) &* 8
    padded += (0..<8).map { UInt8(truncatingIfNeeded: bits >> (8 * UInt64($0))) }
    var words = [UInt32](repeating: 0, count: 16)
    for block in stride(from: 0, to: padded.count, by: 64) {
      for index in 0..<16 {
        words[index] = (0..<4).reduce(0) { $0 | UInt32(padded[block + 4 * index + $1]) << UInt32(8 * $1) }
      }
      let former = state
      for round in rounds { round.run(&state, words) }
      for index in 0..<4 { state[index] = state[index] &+ former[index] }
    }
    return state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> UInt32(8 * $0)) } }
  }

  private struct Round {
    let mix: @Sendable (UInt32, UInt32, UInt32) -> UInt32
    let constant: UInt32
    let order: [Int]
    let shifts: [UInt32]

    func run(_ state: inout [UInt32], _ words: [UInt32]) {
      for step in 0..<16 {
        let sum = state[0] &+ mix(state[1], state[2], state[3]) &+ words[order[step]] &+ constant
        let shift = shifts[step % 4]
        state = [state[3], sum << shift | sum >> (32 - shift), state[1], state[2]]
      }
    }
  }

  private static let rounds = [
    Round(
      mix: { $0 & $1 | ~$0 & $2 }, constant: 0, order: Array(0..<16), shifts: [3, 7, 11, 19]),
    Round(
      mix: { $0 & $1 | $0 & $2 | $1 & $2 }, constant: 0x5A82_7999,
      order: [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15], shifts: [3, 5, 9, 13]),
    Round(
      mix: { $0 ^ $1 ^ $2 }, constant: 0x6ED9_EBA1,
      order: [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15], shifts: [3, 9, 11, 15]),
  ]
}
