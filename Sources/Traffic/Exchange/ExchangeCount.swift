import HTTP
import Observability
import Transport

extension Exchange {
  /// Counts the end of the exchange. Subrequests are no requests of a client.
  @inline(__always)
  func countEnd(_ stream: Unmanaged<ClientStream>) {
    worker.traffic.didEndExchange()
    guard let meter = server.meter else { return }
    stream._withUnsafeGuaranteedRef { stream in
      if stream.isSubrequest { return }
      let status = progress.status
      let isTunnel = status == 101 || head.isExtendedConnect
      meter.count(
        status: status, limit: progress.limitStatus, time: isTunnel ? nil : worker.loop.now &- startedAt,
        received: UInt64(head.byteCount) &+ body.received, sent: stream.sentBytes &- progress.sentBytesAtStart)
    }
  }
}
