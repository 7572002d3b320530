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
    var come = 0
    let outcome = withUnsafeTemporaryAllocation(byteCount: ProxyHeaderParser.most, alignment: 1) {
      (target) -> ProxyHeaderParser.Outcome? in
      switch transport.peek(into: target) {
      case .bytes(let count):
        come = count
        return ProxyHeaderParser.parse(UnsafeRawBufferPointer(rebasing: target[..<count]))
      case .wouldBlock: return .incomplete
      case .end, .failed: return nil
      }
    }
    switch outcome {
    case .incomplete where !transport.hasPeerEnd: return
    case .header(let header, let length):
      facts.proxyHeader = header
      // A whole buffer says nothing about what comes after it. The end of the client makes no edge again, either.
      let isFollowed = come > length || come == ProxyHeaderParser.most || transport.hasPeerEnd
      if !transport.endHeader(length, isFollowed: isFollowed) { close() }
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
