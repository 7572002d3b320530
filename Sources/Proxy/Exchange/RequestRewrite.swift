import Bytes
import HTTP
import Identity
import Upstream
import UpstreamAuth

/// The request as the upstream gets it: built from the parsed head, never passed through.
///
/// Off come hop-by-hop fields, everything that `proxy_set_header` sets (identity fields under every spelling of their
/// names) and the framing; on go the set fields and a framing of our own.
enum RequestRewrite {
  /// False when a template made something that would break a line.
  static func write(_ exchange: Exchange, _ pass: LiveProxyPass, to output: inout ByteBuffer) -> Bool {
    let head = exchange.head
    guard writeRequestLine(exchange, pass, to: &output) else { return false }
    pass.setFields.append(exchange, to: &output)
    switch pass.settings.clientIdentity {
    case .off: break
    case let form: exchange.facts.standing.append(form, exchange.facts.tls, to: &output)
    }
    // RFC 8470 §5.1: a second one, of the client's own, means the same.
    if exchange.isEarly && !pass.setsEarlyData { output.append("Early-Data: 1\r\n") }
    writeFraming(exchange, to: &output)
    if pass.envelope != nil, exchange.isBodyOpened { HeadWriter.field("Content-Type", "application/json", to: &output) }
    if pass.settings.passesRequestFields {
      let bytes = head.bytes.readable
      for field in head.fields {
        if field.isHopByHop || skipped.contains(field.id) || pass.replaced.contains(field, in: bytes) { continue }
        HeadWriter.forward(field, of: bytes, to: &output)
      }
    }
    HeadWriter.end(to: &output)
    return true
  }

  /// The method as the upstream gets it: how its answer is framed, and whether it may be asked again, depends on it.
  static func method(_ exchange: Exchange, _ pass: LiveProxyPass) -> HTTP.Method {
    if let authentication = exchange.authentication, authentication.isProbe { return .head }
    if let method = pass.method { return method.bytes(exchange).withUnsafeBytes { HTTP.Method($0) } }
    // An error page is fetched, whatever the request was.
    return exchange.redirection.keepsBody || exchange.head.method == .head ? exchange.head.method : .get
  }

  /// The end of a chunked body. A field that is set here does not come in by the back door: there are servers that
  /// take trailers for header fields.
  static func writeLastChunk(_ trailers: Trailers?, _ pass: LiveProxyPass, to output: inout ByteBuffer) {
    output.append("0\r\n")
    if let trailers {
      trailers.bytes.withUnsafeBytes { bytes in
        for field in trailers.fields where !pass.replaced.contains(field, in: bytes) {
          HeadWriter.forward(field, of: bytes, to: &output)
        }
      }
    }
    output.append("\r\n")
  }

  /// Expect is answered here; Content-Length is written anew.
  private static let skipped = FieldNameSet(.contentLength, .transferEncoding, .expect, .host)

  private static func writeRequestLine(
    _ exchange: Exchange, _ pass: LiveProxyPass, to output: inout ByteBuffer
  ) -> Bool {
    let head = exchange.head
    let version = pass.settings.speaksHTTP11 ? HTTPVersion.http11 : .http10
    if pass.method == nil, pass.settings.uri == nil, pass.targetTemplate == nil, exchange.redirection.keepsBody,
      head.target.form == .origin
    {
      return HeadWriter.requestLine(
        method: head.bytes.readable[head.methodRange], target: head.bytes.readable[head.target.raw],
        version: version, to: &output)
    }
    var target = ByteBuffer()
    writeTarget(exchange, pass, to: &target)
    if let method = pass.method {
      let name = method.bytes(exchange)
      return name.withUnsafeBytes {
        HeadWriter.requestLine(method: $0, target: target.readable, version: version, to: &output)
      }
    }
    if !exchange.redirection.keepsBody && head.method != .get && head.method != .head {
      let get: StaticString = "GET"
      return HeadWriter.requestLine(
        method: UnsafeRawBufferPointer(start: get.utf8Start, count: 3), target: target.readable, version: version,
        to: &output)
    }
    return HeadWriter.requestLine(
      method: head.bytes.readable[head.methodRange], target: target.readable, version: version, to: &output)
  }

  private static func writeTarget(_ exchange: Exchange, _ pass: LiveProxyPass, to target: inout ByteBuffer) {
    let head = exchange.head
    if let template = pass.targetTemplate {
      let text = template.bytes(exchange)
      if let slash = text.firstIndex(where: { $0 == 0x2F || $0 == 0x3F }) {
        if text[slash] == 0x3F { target.append(0x2F) }
        return target.append(Array(text[slash...]))
      }
    } else if let uri = pass.settings.uri {
      target.append(uri)
      let path = exchange.uri.readable
      let rest = min(pass.settings.replacedPrefix, path.count)
      TargetPath.escape(UnsafeRawBufferPointer(rebasing: path[rest...]), into: &target)
      return appendArguments(exchange, to: &target)
    }
    if exchange.redirection == .path {
      TargetPath.escape(exchange.uri.readable, into: &target)
      return appendArguments(exchange, to: &target)
    }
    if head.target.form == .asterisk { return target.append("*") }
    let path = head.bytes.readable[head.target.path]
    if path.isEmpty { target.append(0x2F) } else { target.append(path) }
    appendArguments(exchange, to: &target)
  }

  private static func appendArguments(_ exchange: Exchange, to target: inout ByteBuffer) {
    if let redirected = exchange.redirectedArguments {
      if !redirected.isEmpty {
        target.append(0x3F)
        target.append(redirected)
      }
    } else if let query = exchange.head.target.query {
      target.append(0x3F)
      target.append(exchange.head.bytes.readable[query])
    }
  }

  private static func writeFraming(_ exchange: Exchange, to output: inout ByteBuffer) {
    if let authentication = exchange.authentication, authentication.sending.isBodiless {
      if !authentication.isProbe && exchange.head.framing != .none { HeadWriter.framing(.length(0), to: &output) }
      return
    }
    switch exchange.body {
    case .collected(let kept): HeadWriter.framing(.length(kept.count), to: &output)
    case .held, .streaming, .streamed: HeadWriter.framing(exchange.head.framing, to: &output)
    case .none, .collecting:
      // A method that is expected to have a body says that there is none (RFC 9110 §8.6).
      if exchange.redirection.keepsBody, exchange.head.framing != .none || exchange.head.method.announcesEmptyBody {
        HeadWriter.framing(.length(0), to: &output)
      }
    }
  }
}

extension HTTP.Method {
  var announcesEmptyBody: Bool {
    switch self {
    case .post, .put, .patch: true
    default: false
    }
  }
}
