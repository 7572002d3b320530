import Bytes
import Crypto
import Forward
import Redis
import TLS
import Traffic
import Transport

/// Takes the keys of session tickets from a store, each minute and with each connection, in one worker of the process.
///
/// A script in the store decides who makes a key and when (docs/decisions/0039): each offers a fresh one, and the store takes the
/// first offer after the newest key has become too old. A key seals once it is two minutes old, so that every machine
/// has it by then; it opens until it is dropped. It is in memory alone, here as in a store that keeps nothing on disk.
final class StoreTickets {
  private let store: StoreClient
  private let ring: TicketKeyRing
  private let loop: EventLoop
  private var timer: OneShotTimer?
  /// When the store has last told its keys.
  private var knownAt: UInt64

  /// Seconds.
  private static let rotation = 12 * 3600
  private static let life = 24 * 3600
  private static let settling: Int64 = 120
  /// As the script returns.
  private static let mostKeys = 16
  private static let key = Array("\(StoreKey.prefix)tickets".utf8)
  /// Milliseconds.
  private static let interval = 60_000

  init(_ store: StoreClient, _ ring: TicketKeyRing, loop: EventLoop) {
    self.store = store
    self.ring = ring
    self.loop = loop
    knownAt = loop.now
    store.didConnect.append { [weak self] in self?.ask() }
    wait()
  }

  func close() {
    timer?.cancel()
    timer = nil
  }

  private func wait() {
    timer = loop.after(Self.interval) { [weak self] in
      guard let self else { return }
      if store.isReady { ask() }
      // Keys that nobody may have any more, or that should have been dropped.
      if loop.now &- knownAt > UInt64(Self.life) * 1000 {
        ring.forget()
        knownAt = loop.now
      }
      wait()
    }
  }

  private func ask() {
    guard let offer = SystemRandom.bytes(80) else { return }
    let arguments = [
      Array(Hex.encode(offer, .lower).utf8), Array("\(Self.rotation)".utf8), Array("\(Self.life)".utf8),
    ]
    store.ask(
      .tickets, keys: [Self.key], arguments,
      then: StoreClient.reading(Self.keys) { [weak self] answer in
        guard let self, case .success(let keys) = answer else { return }
        ring.replace(keys)
        knownAt = loop.now
      })
  }

  /// The keys of an answer, the one that seals first; nil: it is none that the script has. A key that is too old to be kept
  /// opens nothing here, whatever the store says.
  static func keys(_ reply: RedisReply) -> [TicketKey]? {
    guard case .list(let parts) = reply, parts.count == 2, case .number(let now) = parts[0], now >= 0,
      case .list(let items) = parts[1], items.count <= mostKeys
    else { return nil }
    var keys: [(age: Int64, key: TicketKey)] = []
    for item in items {
      guard case .text(let bytes) = item, let colon = bytes.firstIndex(of: 0x3A),
        let made = Int64(String(decoding: bytes[..<colon], as: UTF8.self)), made >= 0,
        let octets = try? Hex.decode(String(decoding: bytes[(colon + 1)...], as: UTF8.self)), octets.count == 80,
        let key = TicketKey(SecretBytes(octets))
      else { return nil }
      // Both are not negative, so the difference can't overflow.
      if now - made <= Int64(life) { keys.append((now - made, key)) }
    }
    guard !keys.isEmpty else { return nil }
    let sealing = keys.firstIndex { $0.age >= settling } ?? keys.count - 1
    let first = keys.remove(at: sealing)
    return [first.key] + keys.map(\.key)
  }
}
