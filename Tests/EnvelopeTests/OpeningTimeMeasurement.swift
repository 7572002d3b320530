import Bytes
import Crypto
import Glibc
import Testing

@testable import Envelope

/// Whether the time that opening takes tells bad padding from a bad code. Measured by hand, in a release build, on a
/// machine that does nothing else: SALLYPORT_TIMING=200000 swift test -c release --filter OpeningTime
@Suite(.enabled(if: getenv("SALLYPORT_TIMING") != nil), .serialized) struct OpeningTimeMeasurement {
  private static let rounds = getenv("SALLYPORT_TIMING").flatMap { Int(String(cString: $0)) } ?? 0

  @Test(arguments: [
    (Cipher.aes256CBC, "hmac-sha256 payload"), (.aes128CBC, "hmac-sha1 payload"), (.aes256CBC, "hmac-sha256 fields a"),
  ])
  func `bad padding and a bad code take the same time`(cipher: Cipher, mac: String) throws {
    let suite = try #require(Parts.suite(cipher, mac)), pair = try #require(Parts.pair(suite))
    let opener = Opener(EnvelopeKeys(suite, current: pair))
    // One text, two endings: bytes of padding that are right, and one of them spoilt; the same wrong code on both. The
    // control is the first kind against itself. Lengths where the digest's count of blocks depends on the padding.
    for count in [40, 55, 119, 1000] {
      let text = Array((#"{"a":""# + String(repeating: "x", count: count - 8) + #""}"#).utf8)
      let padding = 16 - text.count % 16
      let right = text + [UInt8](repeating: UInt8(padding), count: padding)
      var wrong = right
      wrong[wrong.count - 1] = padding == 16 ? 15 : 200
      let bodies = try [right, right, wrong].map { try sealed($0, pair, cipher, suite) }
      var samples = [[Double]](repeating: [], count: 3)
      var random = SystemRandomNumberGenerator()
      for _ in 0..<Self.rounds {
        for kind in [0, 1, 2].shuffled(using: &random) { samples[kind].append(time(opener, bodies[kind])) }
      }
      let control = welch(samples[0], samples[1]), measured = welch(samples[0], samples[2])
      print(
        "\(suite.cipher.rawValue) \(mac), \(count) bytes: median \(median(samples[0])) ns; "
          + "right against right t=\(control.t) (\(control.difference) ns), "
          + "right against wrong t=\(measured.t) (\(measured.difference) ns)")
    }
  }

  private func sealed(
    _ padded: [UInt8], _ pair: EnvelopeKeys.Pair, _ cipher: Cipher, _ suite: EnvelopeSuite
  ) throws -> [UInt8] {
    let iv = [UInt8](repeating: 1, count: cipher.ivCount)
    var payload = ByteBuffer()
    _ = padded.withUnsafeBytes { plain in iv.withUnsafeBytes { pair.cipher.encrypt(plain, iv: $0, to: &payload) } }
    // OpenSSL's own block of padding off.
    payload.truncate(to: padded.count)
    let mac = [UInt8](repeating: 0, count: try #require(suite.mac).algorithm.count)
    return EnvelopeFormat.write(mac: mac, iv: iv, payload: payload.readable).octets
  }

  private func time(_ opener: Opener, _ body: [UInt8]) -> Double {
    var (before, after) = (timespec(), timespec())
    clock_gettime(CLOCK_MONOTONIC, &before)
    let outcome = opener.outcome(body)
    clock_gettime(CLOCK_MONOTONIC, &after)
    if case .success = outcome { Issue.record("opened") }
    return Double(after.tv_sec - before.tv_sec) * 1e9 + Double(after.tv_nsec - before.tv_nsec)
  }

  private func median(_ samples: [Double]) -> Double { samples.sorted()[samples.count / 2] }

  /// Welch's t of the samples below the 90th percentile of both: interrupts are nobody's secret.
  private func welch(_ left: [Double], _ right: [Double]) -> (t: Double, difference: Double) {
    let bound = (left + right).sorted()[(left.count + right.count) * 9 / 10]
    func moments(_ samples: [Double]) -> (mean: Double, error: Double) {
      let kept = samples.filter { $0 < bound }
      let mean = kept.reduce(0, +) / Double(kept.count)
      let variance = kept.reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Double(kept.count - 1)
      return (mean, variance / Double(kept.count))
    }
    let (left, right) = (moments(left), moments(right))
    return ((left.mean - right.mean) / (left.error + right.error).squareRoot(), left.mean - right.mean)
  }
}
