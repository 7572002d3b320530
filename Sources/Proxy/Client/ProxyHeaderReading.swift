import Bytes
import Observability
import TLS
import Transport

/// `listen … proxy_protocol`: every connection begins with a header, before TLS.
extension ClientSession {
  static let timedOut = "client timed out (110: Connection timed out)"

  /// Reads the header once it is whole. Anybody may send one, as with nginx; whether it is believed is a question of
  /// `set_real_ip_from`. A client that sends another beginning is cut off.
  func readProxyHeader() {
    let outcome = withUnsafeTemporaryAllocation(byteCount: ProxyHeaderParser.most, alignment: 1) {
      (target) -> ProxyHeaderParser.Outcome? in
      switch transport.peek(into: target) {
      case .bytes(let count): ProxyHeaderParser.parse(UnsafeRawBufferPointer(rebasing: target[..<count]))
      case .wouldBlock: .incomplete
      case .end, .failed: nil
      }
    }
    switch outcome {
    case .incomplete where !transport.hasPeerEnd: return
    case .header(let header, let length):
      facts.proxyHeader = header
      if !transport.endHeader(length) { close() }
    case .broken(let fault):
      tellOfProxyHeader(.error, .malformed, fault.description)
      close(.abrupt)
    case .incomplete, nil:
      tellOfProxyHeader(.info, .abandonedBeforeHello, "client closed connection")
      close()
    }
  }

  func tellOfProxyHeader(_ level: LogLevel, _ cause: HandshakeCause, _ reason: @autoclosure () -> String) {
    let writes = worker.shared.clientFaults.handshakes.note(cause, of: facts.peer.host, now: worker.loop.now)
    log(writes ? level : .debug, "\(reason()) while reading PROXY protocol")
  }
}
