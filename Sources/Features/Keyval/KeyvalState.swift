import Bytes
import Crypto
import Forward
import Glibc
import JSON
import Language
import Observability
import Traffic

/// The file that keeps the pairs of a zone over restarts (`state=`): JSON, `{"KEY":"VALUE"}`, and a pair that ends is
/// `{"KEY":{"value":"VALUE","until":MILLISECONDS}}`, since 1970. Blocks, so never use it on an event loop.
struct KeyvalState: Sendable, Hashable {
  /// Absolute, or relative to the working folder.
  let path: String

  struct Pair: Equatable {
    let key: [UInt8]
    let value: [UInt8]
    /// Milliseconds since 1970; nil: it stays.
    let end: Int64?
  }

  struct Fault: Error, CustomStringConvertible {
    let reason: String
    /// The file can be read, and has no pairs: nobody's rights are missing.
    var isOfContent = false
    var description: String { reason }
  }

  private static let largest = 64 << 20

  /// No pairs without a file.
  func read() -> Result<[Pair], Fault> {
    switch SourceFiles.disk.read(path, Self.largest) {
    case .failure(let fault) where fault.isMissing: return .success([])
    case .failure(let fault): return .failure(Fault(reason: fault.reason))
    case .success(let bytes): return Result { () throws(Fault) in try Self.pairs(bytes) }
    }
  }

  static func pairs(_ bytes: [UInt8]) throws(Fault) -> [Pair] {
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (largest, 3, 4_000_000)
    let json: JSONValue
    do throws(JSONFault) { json = try JSONValue(bytes, limits: limits) } catch {
      throw Fault(reason: bytes.isEmpty ? "it is empty" : "\(error)", isOfContent: true)
    }
    guard let members = json.members else { throw Fault(reason: "it is no JSON object", isOfContent: true) }
    var pairs: [Pair] = []
    for (key, said) in members {
      let value = said.members.map { $0["value"] } ?? said
      let end = said.members?["until"]
      guard let text = value?.text, end == nil || end?.integer != nil,
        (1...KeyvalZone.longest).contains(key.utf8.count),
        text.utf8.count <= KeyvalZone.longest
      else {
        throw Fault(
          reason:
            "the value of \"\(LogEscape.visible(String(key.prefix(64))))\" is neither a text nor {\"value\":…,\"until\":…}",
          isOfContent: true)
      }
      pairs.append(Pair(key: Array(key.utf8), value: Array(text.utf8), end: end?.integer))
    }
    return pairs.sorted { $0.key.lexicographicallyPrecedes($1.key) }
  }

  /// Replaces the file. `now`: of the monotonic clock.
  func write(_ zone: KeyvalZone, now: UInt64) throws(Fault) {
    var json = JSONText()
    let wall = Self.wall
    json.object { json in
      for (key, pair) in zone.pairs(now: now) {
        let (name, value) = (String(decoding: key, as: UTF8.self), String(decoding: pair.value, as: UTF8.self))
        guard let end = pair.end else {
          json.member(name, value)
          continue
        }
        json.object(name) {
          $0.member("value", value)
          $0.member("until", wall &+ Int64(clamping: end &- now))
        }
      }
    }
    do throws(NewFile.Failure) {
      try NewFile.replace(path, SecretBytes(Array((json.text + "\n").utf8)), mode: 0o600, isShared: true)
    } catch { throw Fault(reason: "\(error)") }
  }

  /// Milliseconds since 1970.
  fileprivate static var wall: Int64 { Int64(time(nil)) &* 1000 }
}

extension KeyvalZone {
  /// Takes the pairs of a file whose time is not over. Returns how many it can't take: the zone is too small for them
  /// by now, or has another `type`.
  func take(_ pairs: [KeyvalState.Pair], now: UInt64) -> Int {
    let wall = KeyvalState.wall
    var left = 0
    for pair in pairs {
      let life = pair.end.map { $0.subtractingReportingOverflow(wall) }
      if let life, life.overflow || life.partialValue <= 0 { continue }
      let change = set(pair.key, to: pair.value, isNew: true, timeout: life.map { Int($0.partialValue) }, now: now)
      if change != .done { left += 1 }
    }
    return left
  }
}
