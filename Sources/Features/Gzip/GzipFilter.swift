import Bytes
import Compression
import Forward
import HTTP
import Traffic

/// `gzip on` of a location in one worker: decides which responses are compressed, as nginx's gzip module does, and begins
/// their compression.
final class GzipFilter: ResponseFilter {
  private let settings: Gzip

  init(_ settings: Gzip) { self.settings = settings }

  /// Begins to compress the response, if that applies to it.
  override func begin(_ exchange: Exchange) {
    guard isOfKind(exchange) else { return }
    addVary(exchange)
    guard isFor(exchange, mayReflect: exchange.handler?.mayReflect ?? true) else { return }
    let outgoing = exchange.response
    switch outgoing.body {
    // To HEAD: what the response to GET would say.
    case .none:
      Self.describe(outgoing)
      outgoing.body = .none(announced: nil)
    case .length(let length): compress(exchange, length)
    case .stream: compress(exchange, nil)
    }
  }

  private func compress(_ exchange: Exchange, _ length: UInt64?) {
    guard let place = exchange.worker[CompressionGauge.self].take() else { return }
    guard let stream = GzipStream(level: settings.level, length: length) else { return place.giveBack() }
    Self.describe(exchange.response)
    exchange.response.body = .stream
    exchange.append(ResponseCompressor(exchange, stream, place))
  }

  private static func describe(_ outgoing: OutgoingResponseHead) {
    outgoing.becomeRecoded()
    outgoing.add("Content-Encoding", "gzip")
  }

  override func beginRange(_ exchange: Exchange) { addVary(exchange) }

  /// `gzip_vary`, also where this client gets the response as it is.
  private func addVary(_ exchange: Exchange) {
    if isOfKind(exchange) { settings.clients.addVary(to: exchange.response) }
  }

  /// As in nginx, a compressed response has no ranges.
  override func changesBytes(ofFile exchange: Exchange) -> Bool {
    isOfKind(exchange) && isFor(exchange, mayReflect: false)
  }

  /// `$gzip_ratio`, with two decimals; nothing without a compressed response.
  static func appendRatio(of exchange: Exchange, to output: inout ByteBuffer) {
    guard let compressor = compressor(of: exchange), compressor.produced > 0 else { return }
    let hundredths = (compressor.received &* 1000 / compressor.produced &+ 5) / 10
    output.append(decimal: hundredths / 100)
    output.append(0x2E)
    if hundredths % 100 < 10 { output.append(0x30) }
    output.append(decimal: hundredths % 100)
  }

  /// nil: the response isn't compressed.
  static func compressor(of exchange: Exchange) -> ResponseCompressor? {
    exchange.progress.filters.find { $0 is ResponseCompressor } as? ResponseCompressor
  }

  /// As in nginx: a 200, 403 or 404 with a body that is long enough, of a listed type and without a coding of its own.
  private func isOfKind(_ exchange: Exchange) -> Bool {
    let outgoing = exchange.response
    guard [200, 403, 404].contains(outgoing.status), exchange.handler?.isCompressible ?? true else { return false }
    switch outgoing.body {
    case .none(announced: let length?), .length(let length): if length < settings.minLength { return false }
    case .none(announced: nil), .stream: break
    }
    if !outgoing.text(of: "content_encoding").isEmpty { return false }
    return settings.takesAnyType || settings.types.contains(outgoing.mediaType)
  }

  /// Whether this client gets a response of that kind compressed. `mayReflect`: as in `ContentHandler`.
  private func isFor(_ exchange: Exchange, mayReflect: Bool) -> Bool {
    guard settings.clients.accept(exchange, isFile: !mayReflect) else { return false }
    if mayReflect, mayTell(exchange) { return false }
    // Of a proxy, RFC 9111 §5.2.2.6 demands this.
    return !exchange.response.forbidsTransformation
  }

  /// BREACH: the size of a compressed body tells what text of the request it repeats, also under TLS. So the responses to
  /// a client with an identity are sent as they are, unless the body comes from a file.
  private func mayTell(_ exchange: Exchange) -> Bool {
    guard exchange.facts.isTLS else { return false }
    let present = exchange.head.present
    return present.contains(.cookie) || present.contains(.authorization) || exchange.facts.hasClientCertificate
      || !exchange.response.text(of: "set_cookie").isEmpty
  }
}
