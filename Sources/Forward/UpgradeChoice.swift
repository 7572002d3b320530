import Bytes
import HTTP
import Traffic

/// Which protocol an upstream may switch to by a 101.
enum UpgradeChoice {
  /// Whether the response names protocols, and each of them was asked for by the client and by the request that went out
  /// (RFC 9110 §7.8). Another protocol could carry requests that nobody judges.
  static func isAsked(_ response: ResponseHead, by head: RequestHead, in outgoing: OutgoingRequestHead) -> Bool {
    let asked = protocols(head.fields, head.bytes.readable)
    let sent = outgoing.upgrade.withUnsafeBytes { HopByHopValue.elements(of: $0) }
    let chosen = protocols(response.fields, response.bytes.readable)
    return !chosen.isEmpty && chosen.allSatisfy { asked.contains($0) && sent.contains($0) }
  }

  private static func protocols(_ fields: UnsafeBufferPointer<Field>, _ bytes: UnsafeRawBufferPointer) -> [[UInt8]] {
    fields.filter { $0.id == .upgrade }.flatMap { HopByHopValue.elements(of: bytes[$0.value]) }
  }
}
