/// What the owner of a socket does after a negotiation has seen the bytes in it: take `consumed` bytes out of the
/// socket, send `reply` in clear, then do what `next` says.
public struct NegotiationStep<Next: Sendable & Equatable>: Sendable, Equatable {
  /// From the front of the input; never more than were passed.
  public let consumed: Int
  public let reply: [UInt8]
  public let next: Next
}
