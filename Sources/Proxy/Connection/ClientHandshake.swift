import HTTP
import Observability
import TLS
import Transport

extension ClientConnection {
  /// The handshake is over: settles who the client is, for the requests that come.
  func admit() {
    firstServer = servers.fallback
    if let context = facts.tls?.serverContext, context !== firstServer.context {
      firstServer = live.servers.first { $0.context === context } ?? firstServer
    }
    admission = Admission(facts.tls)
  }

  /// Nothing was asked yet: what went wrong is told in the log, and in HTTP to who speaks it without TLS.
  func handshakeDidFail(_ reason: String) {
    worker.metrics.clients.count(.failed)
    if reason.contains("http request") { FailureResponse.answerPlainRequest(on: stream, firstServer, worker) }
    let level = facts.tls?.denial == nil ? LogLevel.info : .error
    firstServer.root.errorLog.log(
      level, "*\(facts.number) \(reason) while SSL handshaking, client: \(facts.peer.host)")
  }
}

extension RequestHead {
  /// Does no harm if it is a replay, as far as HTTP says (RFC 8470 §4): a safe method, and nothing behind the head.
  var mayBeEarly: Bool { method.isSafe && framing == .none && first(.upgrade) == nil }
}
