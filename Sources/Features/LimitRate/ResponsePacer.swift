import Bytes
import Forward
import HTTP
import Observability
package import Traffic
import Transport

/// Sends the body of a response at the rate of `limit_rate`: keeps the bytes that may not go yet, and its deadline sends
/// them.
package final class ResponsePacer: BodyFilter {
  private var pace: ResponsePace

  /// Bytes of the response that may wait in the stream before the pacer waits for the client instead of the clock.
  private static let watermark = 65_536

  init(_ exchange: Exchange, _ pace: ResponsePace) {
    self.pace = pace
    super.init(exchange)
  }

  package override func send(_ bytes: UnsafeRawBufferPointer) {
    kept.append(bytes)
    _ = sendAllowed()
  }

  package override func proceed() { if sendAllowed() { didPassKept() } }

  /// Sends what may go now. Returns whether nothing is kept any more.
  private func sendAllowed() -> Bool {
    while !isStopped, !kept.isEmpty {
      let count = min(pace.allowed(now: loop.now), kept.count)
      guard count > 0 else {
        setDeadline(in: pace.wait(now: loop.now))
        return false
      }
      if let stream = exchange.stream, stream.waitingBytes > Self.watermark {
        stream.watchSending(exchange.location.limits.sendTimeout)
        return false
      }
      pace.didSend(count, now: loop.now)
      var piece = ByteBuffer()
      piece.append(UnsafeRawBufferPointer(rebasing: kept.readable[..<count]))
      kept.consume(count)
      pass(piece.readable)
    }
    return !isStopped
  }

  package override func deadlinePassed() { proceed() }
}

/// A location's `limit_rate` and `limit_rate_after`, and what `set $limit_rate` sets. The rate of a response is that of
/// X-Accel-Limit-Rate, `$limit_rate` or `limit_rate`, the first of them that there is.
package final class ResponseRate: ResponseFilter {
  private let rate: CompiledTemplate?
  private let free: CompiledTemplate?
  private let slot: Int?

  init(_ settings: LimitRate) {
    rate = settings.rate.map(\.compiled)
    free = settings.free.map(\.compiled)
    slot = settings.slot
  }

  package override func begin(_ exchange: Exchange) {
    let rate =
      Self.asked(of: exchange) ?? setRate(exchange) ?? rate.flatMap { exchange.size(of: $0.bytes(exchange)) }
    Self.pace(exchange, rate ?? 0, free: { free.flatMap { exchange.size(of: $0.bytes(exchange)) } ?? 0 })
  }

  /// Paces the response, if it has a body and `rate` is above 0. `free`: bytes that go at full speed.
  private static func pace(_ exchange: Exchange, _ rate: Int, free: () -> Int) {
    if case .none = exchange.response.body { return }
    guard exchange.stream != nil, !exchange.isSubrequest, rate > 0 else { return }
    exchange.use(ResponseRateState.self).rate = rate
    exchange.append(
      ResponsePacer(exchange, ResponsePace(rate: rate, free: free(), start: exchange.startedAt)))
  }

  /// What `set $limit_rate` has set in this exchange.
  private func setRate(_ exchange: Exchange) -> Int? {
    guard let slot, let text = exchange.variables.value(slot) else { return nil }
    return exchange.size(of: text)
  }

  /// The rate that the response has, or that X-Accel-Limit-Rate asks for; nil before either.
  private static func asked(of exchange: Exchange) -> Int? {
    exchange.states.known(ResponseRateState.self)?.rate
  }

  /// The value of `$limit_rate`. As in nginx, `limit_rate` shows in it only once the response has begun.
  static func value(_ exchange: Exchange) -> Int {
    asked(of: exchange) ?? exchange.location.object(ResponseRate.self)?.setRate(exchange) ?? 0
  }

  /// Takes the rate of an upstream's X-Accel-Limit-Rate.
  @inline(never)
  static func take(_ response: ResponseHead, _ exchange: Exchange) {
    guard let field = response.first(.xAccelLimitRate) else { return }
    let text = Array(response.bytes.readable[field.value])
    guard !text.isEmpty, text.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let rate = SizeText.size(text) else {
      return
    }
    exchange.use(ResponseRateState.self).rate = rate
    exchange.ask(for: Asked())
  }

  /// X-Accel-Limit-Rate where the location has no rate. Elsewhere the location's own filter heeds it.
  private final class Asked: ResponseFilter {
    override func begin(_ exchange: Exchange) {
      guard exchange.location.object(ResponseRate.self) == nil else { return }
      ResponseRate.pace(exchange, ResponseRate.asked(of: exchange) ?? 0, free: { 0 })
    }
  }
}

/// The rate of one response.
final class ResponseRateState: FeatureState {
  /// Bytes per second; 0: no limit.
  var rate: Int?

  override func reset() { rate = nil }
}
