import Forward
import Redis
import Traffic
import Transport

/// What is in progress in one worker and counts in a store (`limit_conn_zone … store=`).
///
/// The store has a count for each client of each key, and a client's counts are worth nothing once it no longer tells that it
/// lives: those of a machine that dies are gone 30 seconds later. With each connection the client takes another name and tells all
/// that it holds again, so that counts are right after a store has lost them, or has answered too late.
final class StoreHolds {
  enum Answer { case counted, refused, unanswered }

  /// nil: its generation has ended, and the store counts nothing of it any more.
  private weak var store: StoreClient?
  private let loop: EventLoop
  private var held: [[UInt8]: Int] = [:]
  private var name: [UInt8] = []
  private var timer: OneShotTimer?
  private var isUsed = false

  private static let living = "\(StoreKey.prefix)alive:"
  /// Milliseconds.
  private static let life = 30_000
  private static let interval = 10_000
  /// A key is forgotten when nothing has begun under it for so long.
  private static let keyLife = 86_400_000

  init(_ store: StoreClient, loop: EventLoop) {
    self.store = store
    self.loop = loop
    store.didConnect.append { [weak self] in self?.tellAll() }
  }

  /// Whether the store may answer.
  var mayAsk: Bool { store.map { $0.fault == nil } ?? false }

  /// Has a limit use the store: from now on the client tells that it lives.
  func use() {
    guard !isUsed else { return }
    isUsed = true
    wait()
  }

  func take(_ key: [UInt8], limit: Int, _ then: @escaping (Answer) -> Void) {
    let words = ["\(limit)", Self.living, "\(Self.keyLife)"].map { Array($0.utf8) }
    // The name is that of the connection on which the question goes out.
    guard let store else { return then(.unanswered) }
    let taker = StoreClient.reading(TakeAnswer.init) { [weak self] answer in
      switch (self, answer) {
      case (nil, _), (_, .failure): then(.unanswered)
      case (_, .success(.full)): then(.refused)
      case (let holds?, .success(.counted)):
        holds.held[key, default: 0] += 1
        then(.counted)
      }
    }
    store.ask(.take, keys: [key], arguments: { [weak self] in [self?.name ?? []] + words }, then: taker)
  }

  func release(_ key: [UInt8]) {
    guard let count = held[key] else { return }
    held[key] = count > 1 ? count - 1 : nil
    if let store, store.isReady { store.ask(.release, keys: [key], [name]) { _ in true } }
  }

  /// The client ends: its counts are worth nothing any more.
  func close() {
    timer?.cancel()
    timer = nil
    if isUsed { store?.send([Array("DEL".utf8), Array(Self.living.utf8) + name]) }
  }

  private func tellAll() {
    guard isUsed else { return }
    if !name.isEmpty { store?.send([Array("DEL".utf8), Array(Self.living.utf8) + name]) }
    name = Array("\(UInt64.random(in: 0 ... .max))-\(UInt64.random(in: 0 ... .max))".utf8)
    tellLife()
    for (key, count) in held {
      store?.send([Array("HSET".utf8), key, name, Array("\(count)".utf8)])
      store?.send([Array("PEXPIRE".utf8), key, Array("\(Self.keyLife)".utf8)])
    }
  }

  private func tellLife() {
    store?.send(
      [Array("SET".utf8), Array(Self.living.utf8) + name] + ["1", "PX", "\(Self.life)"].map { Array($0.utf8) })
  }

  private func wait() {
    timer = loop.after(Self.interval) { [weak self] in
      guard let self else { return }
      if !name.isEmpty { tellLife() }
      wait()
    }
  }
}
