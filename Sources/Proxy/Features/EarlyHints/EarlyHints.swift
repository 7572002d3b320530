import Bytes
import HTTP

/// `early_hints`: passes an upstream's 103 on to the client (RFC 8297), where the location's conditions hold.
enum EarlyHints {
  /// `hints`: the head of the interim response. Nothing is sent once the final response has begun.
  static func pass(_ hints: ResponseHead, of exchange: Exchange, _ pass: LiveProxyPass) {
    guard hints.status == 103, exchange.progress.state == .waiting, isWanted(exchange) else { return }
    let outgoing = exchange.response
    outgoing.reset(over: hints)
    outgoing.status = 103
    let bytes = hints.bytes.readable
    for field in hints.fields where !field.isHopByHop && field.id != .contentLength {
      if !pass.hidden.contains(field, in: bytes) { outgoing.forward(field) }
    }
    exchange.stream?.sendInterim(head: outgoing)
    outgoing.reset()
  }

  /// As in nginx: at least one condition is neither empty nor `0`.
  private static func isWanted(_ exchange: Exchange) -> Bool {
    exchange.location.earlyHints.contains { condition in
      let value = condition.bytes(exchange)
      return !value.isEmpty && value != [0x30]
    }
  }
}
