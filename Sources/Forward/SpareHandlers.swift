import Bytes
package import Traffic

/// The handlers of one worker that serve no exchange now: a request allocates none.
package final class SpareHandlers: WorkerPart {
  private var ofRequests: [ProxyHandler] = []
  private var ofSessions: [TCPHandler] = []
  /// The attempts that wait for a place, which a handler that is given back may have left.
  private let placeQueue: PlaceQueue

  private static let kept = 64

  package required init(_ worker: Worker) {
    placeQueue = worker.placeQueue
    super.init(worker)
  }

  /// Takes a handler for a request of `http`.
  package func takeProxyHandler(_ pass: CompiledPass) -> ProxyHandler {
    let handler = ofRequests.popLast() ?? ProxyHandler(self)
    handler.prepare(pass)
    borrowing(handler.attempt) { $0.expect() }
    return handler
  }

  /// Takes a handler for a session of `stream`.
  package func takeTCPHandler(_ pass: CompiledPass) -> TCPHandler {
    let handler = ofSessions.popLast() ?? TCPHandler(self)
    handler.prepare(pass)
    handler.attempt.expect()
    return handler
  }

  func giveBack(_ handler: ProxyHandler) {
    ofRequests.append(handler)
    placeQueue.connectionDidFree()
  }

  func giveBack(_ handler: TCPHandler) {
    ofSessions.append(handler)
    placeQueue.connectionDidFree()
  }

  /// Gives up the handlers beyond a bound. Never within a handler's own call.
  package override func tick(now: UInt64) {
    if ofSessions.count > Self.kept { ofSessions.removeLast(ofSessions.count - Self.kept) }
    if ofRequests.count > Self.kept { ofRequests.removeLast(ofRequests.count - Self.kept) }
  }
}
