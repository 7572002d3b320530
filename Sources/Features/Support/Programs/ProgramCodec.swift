import Bytes
import HTTP
import Upstream

/// One request and response of SCGI or uwsgi: the parameters, which `ProgramRequest` has written, and from then on bytes as
/// they are. A server must know the length of a body, and its connection serves one request.
final class ProgramCodec: WireCodec {
  static func wire(_ name: String) -> UpstreamWire {
    UpstreamWire(name, end: .connection, needsLength: true) { ProgramCodec() }
  }

  private var parser = HeadParser()
  private var method = HTTP.Method.get
  private var hasHead = false

  override func begin(_ head: OutgoingRequestHead, _ method: HTTP.Method, to output: inout ByteBuffer) {
    self.method = method
    parser = HeadParser()
    hasHead = false
    output.append(head.parameters.readable)
  }

  override func next(
    _ input: UnsafeRawBufferPointer, limits: HeadLimits, into head: ResponseHead
  ) -> (event: WireEvent, consumed: Int) {
    if input.isEmpty { return (.needsMore, 0) }
    if hasHead { return (.body(input), input.count) }
    switch parser.response(
      input, limits: limits, requestMethod: method, startsWith: .statusLineOrFields, into: head)
    {
    case .incomplete: return (.needsMore, 0)
    case .failed(let error): return (.failed(.head(error)), input.count)
    case .complete(let length):
      hasHead = true
      return (.head, length)
    }
  }
}
