import Bytes
import Observability
import TLS
import Transport

/// `listen … proxy_protocol`: every connection begins with a header, before TLS.
extension ClientSession {
  static let timedOut = "client timed out (110: Connection timed out)"

  enum HeaderReading {
    case incomplete
    /// The header is whole, and has this many bytes, which stay in the socket. `isFollowed`: further bytes may have come,
    /// of which no edge tells.
    case header(Int, isFollowed: Bool)
    /// No header comes. The reason is logged.
    case ended(ByteStream.Closing)
  }

  /// Reads the header once it is whole. A client that sends another beginning is cut off.
  func readProxyHeader() {
    switch peekProxyHeader() {
    case .incomplete: break
    case .header(let length, let isFollowed):
      if !transport.endHeader(length, isFollowed: isFollowed) { close() }
    case .ended(let closing): close(closing)
    }
  }

  /// Looks for the header. Anybody may send one, as with nginx; whether it is believed is a question of
  /// `set_real_ip_from`.
  func peekProxyHeader() -> HeaderReading {
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
    case .incomplete where !transport.hasPeerEnd: return .incomplete
    case .header(let header, let length):
      facts.proxyHeader = header
      // A whole buffer says nothing about what comes after it. The end of the client makes no edge again, either.
      return .header(
        length, isFollowed: come > length || come == ProxyHeaderParser.most || transport.hasPeerEnd)
    case .broken(let fault):
      tellOfProxyHeader(.error, .malformed, fault.description)
      return .ended(.abrupt)
    case .incomplete, nil:
      tellOfProxyHeader(.info, .abandonedBeforeHello, "client closed connection")
      return .ended(.orderly)
    }
  }

  func tellOfProxyHeader(_ level: LogLevel, _ cause: HandshakeCause, _ reason: @autoclosure () -> String) {
    let writes = worker.shared.clientFaults.handshakes.note(cause, of: facts.peer.host, now: worker.loop.now)
    log(writes ? level : .debug, "\(reason()) while reading PROXY protocol")
  }
}
