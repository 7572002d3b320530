import Bytes
@testable import Features
@testable import Forward
import HTTP
import Language
@testable import Traffic
import Transport
import Upstream

/// A toy dialect of upstreams, which isn't HTTP.
///
///     PING METHOD /path ─► +5 ─► hello ─► .          the request: a line, pieces of its body, its end
///     HEAD 200 5 ─► DATA hello ─► SAID oops ─► END   the response: a line each; BYE in place of END ends the session
enum PingPass: UpstreamFeature {
  static let wire = UpstreamWire("PING", end: .told) { PingCodec() }
  static let dialect: PassDialect = {
    var dialect = PassDialect(name: "PING", prefix: "proxy_")
    dialect.schemes = [("ping", .http)]
    dialect.standardScheme = .http
    dialect.version = .wire(wire)
    return dialect
  }()

  static let chapter = Chapter.proxy
  static let directives = [
    DirectiveEntry.local("ping_pass", [.location, .locationIf], .words(1...1, "ADDRESS"), "Sends PING.")
  ]

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    builder.passedURL(line, level, dialect).map { builder.pass(line, level, $0, dialect, parts: [PingParameters()]) }
  }

  /// All features, and this one.
  static let list = FeatureList(Features.each + [Self.self])
}

/// Says of each request which client it is of, and hears of faults.
struct PingParameters: PassPart {
  func compile(_ parts: inout PassParts, _ makers: LiveMakers) { parts.requestHooks.append(Hook()) }

  private final class Hook: RequestHook {
    override func complete(_ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool) -> Bool {
      outgoing.parameters.append(string: "client \(exchange.session.facts.peer.host)")
      return true
    }

    override func accepts(_ text: UnsafeRawBufferPointer) -> Bool { !text.text.contains("fatal") }
  }
}

final class PingCodec: WireCodec {
  private var method = HTTP.Method.get

  override func begin(_ head: OutgoingRequestHead, _ method: HTTP.Method, to output: inout ByteBuffer) {
    self.method = method
    output.append(string: "PING \(head.method.text) \(head.target.text) \(head.parameters.readable.text)\n")
  }

  override func append(body bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    output.append(string: "+\(bytes.count)\n\(bytes.text)\n")
  }

  override func appendEnd(to output: inout ByteBuffer) { output.append(".\n") }

  override func next(
    _ input: UnsafeRawBufferPointer, limits: HeadLimits, into head: ResponseHead
  ) -> (event: WireEvent, consumed: Int) {
    guard let end = input.firstIndex(of: 0x0A) else { return (.needsMore, 0) }
    let line = UnsafeRawBufferPointer(rebasing: input[..<end]), words = line.text.split(separator: " ")
    let rest = UnsafeRawBufferPointer(rebasing: line.dropFirst(5))
    let event: WireEvent =
      switch words.first {
      case "HEAD": read(words, limits, head)
      case "DATA": .body(rest)
      case "SAID": .text(rest)
      case "END": .end(mayServeAgain: true)
      case "BYE": .end(mayServeAgain: false)
      default: .failed(.bytes("sent \"\(line.text)\""))
      }
    return (event, end + 1)
  }

  private func read(_ words: [Substring], _ limits: HeadLimits, _ head: ResponseHead) -> WireEvent {
    let length = words.count > 2 ? "Content-Length: \(words[2])\r\n" : ""
    let text = Array("HTTP/1.1 \(words.count > 1 ? words[1] : "") X\r\n\(length)\r\n".utf8)
    var parser = HeadParser()
    return text.withUnsafeBytes { bytes in
      switch parser.response(bytes, limits: limits, requestMethod: method, into: head) {
      case .complete: .head
      case .incomplete: .failed(.bytes("sent half a head"))
      case .failed(let error): .failed(.head(error))
      }
    }
  }
}
