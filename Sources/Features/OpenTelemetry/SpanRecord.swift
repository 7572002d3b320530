import Bytes
import Forward
import Glibc
import HTTP
import Traffic
import Transport
import Upstream

/// Writes the spans of a request that ends: its own, and one for each attempt at an upstream.
///
/// The names of attributes are those of OpenTelemetry's semantic conventions for HTTP. A query is in no span, because
/// secrets stand there.
struct SpanRecord {
  /// Of trace.v1.Span.
  private enum Kind: UInt64 { case server = 2, client = 3 }

  private let exchange: Exchange
  private let span: RequestSpan
  /// Nanoseconds since 1970 of the moment that is `now` on the loop's clock.
  private let clock: UInt64
  private let now: UInt64

  fileprivate static func write(_ exchange: Exchange, _ tracer: LiveOpenTelemetry) {
    guard let state = SpanState.of(exchange), let span = state.span, span.isSampled else { return }
    let buffer = exchange.worker[SpanBuffer.self]
    guard buffer.isOpen else { return }
    let record = SpanRecord(exchange, span)
    buffer.add { record.server(&$0, tracer) }
    guard let handler = exchange.handler as? UpstreamHandler else { return }
    for index in handler.attempt.records.indices {
      let identifier = state.attempt(index, exchange)
      buffer.add { record.client(&$0, handler, index, identifier) }
    }
  }

  private init(_ exchange: Exchange, _ span: RequestSpan) {
    self.exchange = exchange
    self.span = span
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    clock = UInt64(max(0, time.tv_sec)) &* 1_000_000_000 &+ UInt64(max(0, time.tv_nsec))
    now = exchange.worker.loop.now
  }

  /// Nanoseconds since 1970 of a moment of the loop's clock, in milliseconds.
  private func nanoseconds(_ moment: UInt64) -> UInt64 { clock &- (now &- min(moment, now)) &* 1_000_000 }

  private func begin(
    _ writer: inout SpanWriter, _ identifier: [UInt8], parent: [UInt8]?, _ kind: Kind, _ name: UnsafeRawBufferPointer,
    from start: UInt64, to end: UInt64
  ) {
    writer.field(1, hex: span.trace)
    writer.field(2, hex: identifier)
    if let parent { writer.field(4, hex: parent) }
    writer.field(5, name)
    writer.field(6, varint: kind.rawValue)
    writer.field(7, fixed64: nanoseconds(start))
    writer.field(8, fixed64: nanoseconds(end))
    // Sampled (W3C Trace Context).
    writer.field(16, fixed32: 1)
  }

  private func end(_ writer: inout SpanWriter, status: Int, isError: Bool) {
    if status > 0 { writer.attribute(9, "http.response.status_code", integer: status) }
    guard isError else { return }
    var text = ByteBuffer()
    if status > 0 { text.append(decimal: UInt64(status)) } else { text.append("_OTHER") }
    writer.attribute(9, "error.type", text.readable)
    // Status: its code 2 is ERROR.
    writer.field(15, [0x18, 0x02])
  }

  private func server(_ writer: inout SpanWriter, _ tracer: LiveOpenTelemetry) {
    let name = tracer.name?.bytes(exchange) ?? tracer.locationName
    name.withUnsafeBytes {
      begin(
        &writer, span.own, parent: span.parent?.parentID, .server, $0, from: exchange.startedAt, to: now)
    }
    let head = exchange.head, bytes = head.bytes.readable
    writer.attribute(9, "http.request.method", method)
    writer.attribute(9, "url.path", bytes[head.target.path])
    value(.scheme) { writer.attribute(9, "url.scheme", $0) }
    tracer.locationName.withUnsafeBytes { writer.attribute(9, "http.route", $0) }
    writer.attribute(9, "server.address", bytes[head.host])
    value(.remote_addr) { writer.attribute(9, "client.address", $0) }
    let peer = exchange.facts.peer
    Array(peer.host.utf8).withUnsafeBytes { writer.attribute(9, "network.peer.address", $0) }
    value(.server_protocol) { writer.attribute(9, "network.protocol.version", version($0)) }
    Self.agent.withUnsafeBytes { name in
      if let agent = head.value(named: name) { writer.attribute(9, "user_agent.original", bytes[agent]) }
    }
    for attribute in tracer.attributes {
      writer.attribute(9, attribute.name, attribute.value.bytes(exchange))
    }
    let status = exchange.progress.status
    end(&writer, status: status, isError: status >= 500)
  }

  private static let agent = Array("User-Agent".utf8)
  private var method: UnsafeRawBufferPointer { exchange.head.bytes.readable[exchange.head.methodRange] }

  /// `1.1` of `HTTP/1.1`, and `2` of `HTTP/2.0`.
  private func version(_ text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    let version = text.dropFirst(5)
    return UnsafeRawBufferPointer(
      rebasing: version.suffix(2).elementsEqual([0x2E, 0x30]) && text.last == 0x30
        && text.dropFirst(5).first == 0x32 ? version.prefix(1) : version)
  }

  private func value(_ variable: SimpleVariable, _ body: (UnsafeRawBufferPointer) -> Void) {
    var text = ByteBuffer()
    exchange.append(.simple(variable), to: &text)
    body(text.readable)
  }

  private func client(_ writer: inout SpanWriter, _ handler: UpstreamHandler, _ index: Int, _ identifier: [UInt8]) {
    let record = handler.attempt.records[index]
    begin(
      &writer, identifier, parent: span.own, .client, method, from: record.beganAt, to: record.endedAt ?? now)
    writer.attribute(9, "http.request.method", method)
    if let group = handler.group, let server = record.server, group.addressTexts.indices.contains(server) {
      let text = group.addressTexts[server]
      let colon = text.lastIndex(of: 0x3A).flatMap { text.first == 0x75 ? nil : $0 } ?? text.endIndex
      let isBracketed = text.first == 0x5B
      text.withUnsafeBytes {
        let host = isBracketed ? $0[1..<max(1, colon - 1)] : $0[..<colon]
        writer.attribute(9, "server.address", UnsafeRawBufferPointer(rebasing: host))
      }
      if let port = Int(String(decoding: text[min(colon + 1, text.endIndex)...], as: UTF8.self)) {
        writer.attribute(9, "server.port", integer: port)
      }
    }
    if index > 0 { writer.attribute(9, "http.request.resend_count", integer: index) }
    let status = record.status ?? 0
    end(&writer, status: status, isError: status == 0 || status >= 400)
  }
}

/// Writes the spans of the exchanges that end in one location.
final class SpanStep: LogStep {
  private let tracer: LiveOpenTelemetry

  init(_ tracer: LiveOpenTelemetry) { self.tracer = tracer }

  override func run(_ exchange: Exchange) { SpanRecord.write(exchange, tracer) }
}
