import Bytes
import HTTP
import Observability
import Transport

/// Sends the body of an exchange's response at the rate of `limit_rate`: it keeps the bytes that may not go yet, and its
/// deadline sends them. What it keeps counts as waiting for the client, so that the upstream pauses.
final class ResponsePacer: EventTarget {
  private enum End {
    case open
    case whole(Trailers?)
    /// The upstream's response broke off.
    case broken
  }

  private let exchange: Exchange
  private var pace: ResponsePace
  private var kept: WaitingBytes
  private var end = End.open
  private var isStopped = false

  /// Bytes of the response that may wait in the stream before the pacer waits for the client instead of the clock.
  private static let watermark = 65_536

  init(_ exchange: Exchange, _ pace: ResponsePace) {
    self.exchange = exchange
    self.pace = pace
    kept = WaitingBytes(in: exchange.worker.responses)
    super.init(loop: exchange.worker.loop)
  }

  /// Bytes that may not go yet.
  var keptBytes: Int { kept.count }

  func send(_ bytes: UnsafeRawBufferPointer) {
    kept.append(bytes)
    _ = sendAllowed()
  }

  /// The response ends with these trailers when all bytes have gone. False: they have gone already.
  func keepsEnd(_ trailers: Trailers?) -> Bool {
    guard !isStopped, !kept.isEmpty else { return false }
    end = .whole(trailers)
    return true
  }

  /// The response breaks off when all bytes have gone. False: they have gone already.
  func keepsBreak() -> Bool {
    guard !isStopped, !kept.isEmpty else { return false }
    end = .broken
    return true
  }

  /// The exchange has ended.
  func stop() {
    isStopped = true
    kept.release()
    loop.forgetDeadline(of: self)
  }

  /// Sends what may go now, and asks for more, or ends the response, once nothing is kept.
  func proceed() {
    guard sendAllowed() else { return }
    switch end {
    // If bytes still wait for the client, the stream tells when it has taken them.
    case .open:
      guard exchange.waitingBytes > 0 else { return exchange.handler?.clientDidDrain() ?? () }
      // A stream of HTTP/2 tells only if it is asked to.
      exchange.stream?.watchSending(exchange.location.limits.sendTimeout)
    case .whole(let trailers): exchange.complete(trailers)
    case .broken: BrokenResponse.end(exchange)
    }
  }

  /// Whether nothing is kept any more.
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
      exchange.passBody(piece.readable)
    }
    return !isStopped
  }

  override func deadlinePassed() { proceed() }
}

/// A location's `limit_rate` and `limit_rate_after`, and what `set $limit_rate` sets.
struct LiveRate {
  private let rate: LiveTemplate?
  private let free: LiveTemplate?
  private let slot: Int?

  init(_ settings: RateLimitSettings) {
    rate = settings.rate.map { LiveTemplate($0) }
    free = settings.free.map { LiveTemplate($0) }
    slot = settings.slot
  }

  /// Bytes per second; 0: no limit.
  func rate(_ exchange: Exchange) -> Int {
    setRate(exchange) ?? rate.flatMap { Self.size($0.bytes(exchange), exchange) } ?? 0
  }

  /// What `set $limit_rate` has set in this exchange.
  func setRate(_ exchange: Exchange) -> Int? {
    guard let slot, let text = exchange.variables.value(slot) else { return nil }
    return Self.size(text, exchange)
  }

  /// Bytes that go at full speed.
  func free(_ exchange: Exchange) -> Int { free.flatMap { Self.size($0.bytes(exchange), exchange) } ?? 0 }

  /// nil, after a line in the log, for a text that is no size. An empty text is no limit, as in nginx.
  static func size(_ text: [UInt8], _ exchange: Exchange) -> Int? {
    if text.isEmpty { return nil }
    if let size = ResponsePace.size(text) { return size }
    exchange.log(.error, "invalid size \"\(LogEscape.text(text))\"")
    return nil
  }
}

/// The rate of a response in an exchange: that of X-Accel-Limit-Rate, `$limit_rate` or `limit_rate`, the first of them
/// that there is.
enum ResponseRate {
  /// Begins to pace the response, if a rate applies to it.
  @inline(never)
  static func begin(_ exchange: Exchange) {
    guard case .streaming(hasBody: true) = exchange.progress.state, exchange.stream != nil, !exchange.isSubrequest
    else {
      return
    }
    let (limits, settings) = (exchange.account.limiting, exchange.location.rate)
    let rate = limits.rate ?? settings?.rate(exchange) ?? 0
    guard rate > 0 else { return }
    limits.setRate(rate)
    let free = settings?.free(exchange) ?? 0
    limits.begin(
      ResponsePacer(exchange, ResponsePace(rate: rate, free: free, start: exchange.account.startedAt)))
  }

  /// The value of `$limit_rate`. As in nginx, `limit_rate` shows in it only once the response has begun.
  static func value(_ exchange: Exchange) -> Int {
    exchange.account.limiting.rate ?? exchange.location.rate?.setRate(exchange) ?? 0
  }

  /// The client has taken all waiting bytes. A pacer that keeps bytes asks the handler for more only when they have gone.
  static func streamDidDrain(_ exchange: Exchange) {
    if let pacer = exchange.account.limiting.pacer, pacer.keptBytes > 0 { return pacer.proceed() }
    // The compressor asks the handler for more when it has nothing left.
    if exchange.account.compression.keptBytes > 0 { return }
    exchange.handler?.clientDidDrain()
  }

  /// Takes the rate of an upstream's X-Accel-Limit-Rate.
  @inline(never)
  static func take(_ response: ResponseHead, _ exchange: Exchange) {
    guard let field = response.first(.xAccelLimitRate) else { return }
    let text = Array(response.bytes.readable[field.value])
    guard !text.isEmpty, text.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let rate = ResponsePace.size(text) else {
      return
    }
    exchange.account.limiting.setRate(rate)
  }
}
