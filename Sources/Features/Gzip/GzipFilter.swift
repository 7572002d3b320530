import Bytes
import Compression
import Forward
import HTTP
import Patterns
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
    outgoing.remove("Accept-Ranges")
    ResponseFields.weakenTag(of: outgoing)
    outgoing.add("Content-Encoding", "gzip")
  }

  override func beginRange(_ exchange: Exchange) { addVary(exchange) }

  /// `gzip_vary`, also where this client gets the response as it is.
  private func addVary(_ exchange: Exchange) {
    if settings.sendsVary, isOfKind(exchange) { exchange.response.add("Vary", "Accept-Encoding") }
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
    if !ResponseFields.value("content_encoding", of: outgoing).isEmpty { return false }
    return settings.takesAnyType || settings.types.contains(ResponseFields.type(of: outgoing))
  }

  /// Whether this client gets a response of that kind compressed. `mayReflect`: as in `ContentHandler`.
  private func isFor(_ exchange: Exchange, mayReflect: Bool) -> Bool {
    let head = exchange.head, bytes = head.bytes.readable
    guard let field = head.first(.acceptEncoding), GzipAcceptance.accepts(bytes[field.value]) else { return false }
    if settings.disablesOldExplorer || !settings.disabledAgents.isEmpty, isDisabled(exchange) { return false }
    if head.version == .http10 && !settings.takesHTTP10 { return false }
    if head.first(.via) != nil, !isForProxies(exchange, isFile: !mayReflect) { return false }
    if mayReflect, mayTell(exchange) { return false }
    // Of a proxy, RFC 9111 §5.2.2.6 demands this.
    return !Self.list("cache_control", of: exchange.response, has: "no-transform")
  }

  /// BREACH: the size of a compressed body tells what text of the request it repeats, also under TLS. So the responses to
  /// a client with an identity are sent as they are, unless the body comes from a file.
  private func mayTell(_ exchange: Exchange) -> Bool {
    guard exchange.facts.isTLS else { return false }
    let present = exchange.head.present
    return present.contains(.cookie) || present.contains(.authorization) || exchange.facts.hasClientCertificate
      || !ResponseFields.value("set_cookie", of: exchange.response).isEmpty
  }

  /// `gzip_proxied`. `isFile`: as in nginx, the Last-Modified of a file is not one that `no_last_modified` asks for.
  private func isForProxies(_ exchange: Exchange, isFile: Bool) -> Bool {
    let (proxied, outgoing) = (settings.proxied, exchange.response)
    if proxied.isEmpty { return false }
    if proxied.contains(.any) { return true }
    if proxied.contains(.auth), exchange.head.present.contains(.authorization) { return true }
    let expires = ResponseFields.value("expires", of: outgoing)
    if !expires.isEmpty {
      guard proxied.contains(.expired), let end = expires.withUnsafeBytes({ HTTPDate.parse($0) }) else { return false }
      let date = ResponseFields.value("date", of: outgoing)
      guard let now = date.withUnsafeBytes({ HTTPDate.parse($0) }) else { return false }
      return end < now
    }
    if !ResponseFields.value("cache_control", of: outgoing).isEmpty {
      func says(_ directive: String) -> Bool { Self.list("cache_control", of: outgoing, has: directive) }
      return proxied.contains(.noCache) && says("no-cache") || proxied.contains(.noStore) && says("no-store")
        || proxied.contains(.private) && says("private")
    }
    if proxied.contains(.noLastModified), !isFile,
      !ResponseFields.value("last_modified", of: outgoing).isEmpty
    {
      return false
    }
    return !proxied.contains(.noETag) || ResponseFields.value("etag", of: outgoing).isEmpty
  }

  /// `gzip_disable`
  private func isDisabled(_ exchange: Exchange) -> Bool {
    guard let field = exchange.head.first(.userAgent) else { return false }
    let agent = Array(exchange.head.bytes.readable[field.value])
    if settings.disablesOldExplorer, Self.isOldExplorer(agent) { return true }
    return settings.disabledAgents.contains { pattern in
      var captures = Captures()
      let outcome = agent.withUnsafeBytes {
        pattern.match($0, scratch: exchange.worker.patternScratch, into: &captures)
      }
      return outcome != .noMatch
    }
  }

  /// Internet Explorer 4 to 6, but not 6 with Service Pack 2.
  static func isOldExplorer(_ agent: [UInt8]) -> Bool {
    guard let start = agent.firstRange(of: Array("MSIE ".utf8))?.upperBound, agent.count > start + 2,
      agent[start + 1] == 0x2E, agent.firstRange(of: Array("Opera".utf8)) == nil
    else { return false }
    switch agent[start] {
    case 0x34, 0x35: return true
    case 0x36: return agent.firstRange(of: Array("SV1".utf8)) == nil
    default: return false
    }
  }

  // MARK: Fields of the response

  private static func list(_ name: StaticString, of outgoing: OutgoingResponseHead, has element: String) -> Bool {
    ResponseFields.value(name, of: outgoing).split(separator: 0x2C).contains { part in
      let word = part.drop { $0 == 0x20 || $0 == 0x09 }.prefix { $0 != 0x20 && $0 != 0x09 && $0 != 0x3D && $0 != 0x3B }
      return word.map { ASCII.lower($0) }.elementsEqual(element.utf8)
    }
  }
}
