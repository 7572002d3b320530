import Bytes
import HTTP
import Transport
import Upstream

/// The upstream's answer as the client gets it: built from the parsed head.
enum ResponseRewrite {
  /// Writes the head and settles how the body is framed. `sealed`: bytes of the envelope that follows, where there is
  /// one; 0 for an empty body.
  static func write(_ exchange: Exchange, _ response: ResponseHead, _ pass: LiveProxyPass, sealed: Int? = nil) {
    guard let connection = exchange.connection else { return }
    let status = status(for: exchange, response)
    exchange.status = Int(status)
    let framing = sealed.map { .length(UInt64($0)) } ?? framing(for: exchange, status, response)
    if framing == .untilClose || !connection.isBodyRead || connection.isLeaving { exchange.persists = false }

    exchange.scratch.removeAll()
    if status == response.status {
      HeadWriter.statusLine(of: response, to: &exchange.scratch)
    } else {
      HeadWriter.statusLine(status, to: &exchange.scratch)
    }
    if !passes(.server, response, pass) {
      FailureResponse.writeServer(tokens: exchange.location.settings.redirects.serverTokens, to: &exchange.scratch)
    }
    if !passes(.date, response, pass) { FailureResponse.writeDate(exchange.clock, to: &exchange.scratch) }
    // Of HEAD it is said what GET would have: an envelope.
    let isSealed = pass.envelope != nil && (sealed ?? (exchange.head.method == .head ? 1 : 0)) > 0
    writeFields(exchange, response, pass, isSealed: isSealed, to: &exchange.scratch)
    exchange.writeAddedFields(status: Int(status), to: &exchange.scratch)
    if response.status == 101 {
      HeadWriter.field("Connection", "upgrade", to: &exchange.scratch)
      if let upgrade = response.upgrade {
        _ = HeadWriter.field("Upgrade", response.bytes.readable[upgrade], to: &exchange.scratch)
      }
    } else {
      writeFraming(framing, exchange, response, pass, to: &exchange.scratch)
      exchange.writeConnectionField(to: &exchange.scratch)
    }
    HeadWriter.end(to: &exchange.scratch)
    exchange.keepSentHead(exchange.scratch.readable)
    connection.send(exchange.scratch.readable)
    exchange.answer = .streaming(framing)
  }

  private static func status(for exchange: Exchange, _ response: ResponseHead) -> UInt16 {
    exchange.statusOverride.map { UInt16(truncatingIfNeeded: $0) } ?? response.status
  }

  /// Whether the client gets a body, be it an empty one.
  static func mayHaveBody(_ exchange: Exchange, _ response: ResponseHead) -> Bool {
    mayHaveBody(exchange, status(for: exchange, response))
  }

  // Whatever the upstream was asked and answered (proxy_method, error_page =204): to this no body may follow, or the
  // client takes it for its next answer.
  private static func mayHaveBody(_ exchange: Exchange, _ status: UInt16) -> Bool {
    exchange.head.method != .head && status >= 200 && status != 204 && status != 304
  }

  /// How the body goes on: with its length where it is known, in chunks to who understands them, else to the end of
  /// the connection.
  private static func framing(for exchange: Exchange, _ status: UInt16, _ response: ResponseHead) -> BodyFraming {
    guard mayHaveBody(exchange, status) else { return .none }
    return switch response.framing {
    case .none: .none
    case .length(let length): .length(length)
    case .chunked, .untilClose: exchange.head.version == .http11 ? .chunked : .untilClose
    }
  }

  private static func writeFraming(
    _ framing: BodyFraming, _ exchange: Exchange, _ response: ResponseHead, _ pass: LiveProxyPass,
    to output: inout ByteBuffer
  ) {
    if framing == .none {
      // HEAD and 304 tell the length that a GET would have had.
      let status = exchange.status
      if status < 200 || status == 204 { return }
      if exchange.head.method != .head, status != 304 {
        HeadWriter.framing(.length(0), to: &output)
      } else if let length = response.announcedLength, pass.envelope == nil {
        HeadWriter.framing(.length(length), to: &output)
      }
    } else {
      HeadWriter.framing(framing, to: &output)
    }
  }

  private static func writeFields(
    _ exchange: Exchange, _ response: ResponseHead, _ pass: LiveProxyPass, isSealed: Bool, to output: inout ByteBuffer
  ) {
    let bytes = response.bytes.readable
    if isSealed { HeadWriter.field("Content-Type", "application/json", to: &output) }
    for field in response.fields {
      if field.isHopByHop || skipped.contains(field.id) || pass.hidden.contains(field, in: bytes) { continue }
      if isSealed && field.id == .contentType { continue }
      if field.id == .location || field.id == .refresh, !pass.redirects.isEmpty,
        writeRedirect(field, bytes, exchange, pass, to: &output)
      {
        continue
      }
      HeadWriter.forward(field, of: bytes, to: &output)
    }
  }

  /// `proxy_pass_header`: the upstream's own Server or Date stands in place of ours, where it sent one.
  private static func passes(_ id: FieldName, _ response: ResponseHead, _ pass: LiveProxyPass) -> Bool {
    !pass.hidden.contains(id) && response.fields.first(id) != nil
  }

  /// The framing is ours.
  private static let skipped = FieldNameSet(.contentLength, .transferEncoding)

  /// `proxy_redirect`: true when a rule matched and the field was written. Like nginx, makes a Location that became a
  /// path absolute (`absolute_redirect`), and leaves one that no rule matched as it is.
  private static func writeRedirect(
    _ field: Field, _ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ pass: LiveProxyPass,
    to output: inout ByteBuffer
  ) -> Bool {
    let value = Array(bytes[field.value])
    var at = 0
    if field.id == .refresh {
      // `5; url=http://…`, in letters of either case.
      guard let start = value.map({ ASCII.lower($0) }).firstRange(of: Array("url=".utf8)) else { return false }
      at = start.upperBound
    }
    for rule in pass.redirects {
      let from = rule.from.bytes(exchange)
      guard !from.isEmpty, value[at...].starts(with: from) else { continue }
      let target = rule.to.bytes(exchange).filter { $0 >= 0x20 && $0 != 0x7F } + value[(at + from.count)...]
      output.append(bytes[field.name])
      output.append(": ")
      output.append(field.id == .location ? exchange.absolute(target) : value[..<at] + target)
      output.append("\r\n")
      return true
    }
    return false
  }
}
