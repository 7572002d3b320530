/// Why an exchange ends. Every exchange ends once, by `Exchange.end`, for one of these reasons.
public enum EndReason {
  /// The response is whole.
  case complete
  /// The client ended its side, or its connection broke.
  case clientLeft
  /// The client took nothing of the response for `send_timeout`.
  case clientTimedOut
  /// The upstream's response broke off after its head had gone to the client.
  case upstreamBroke
  /// `return 444`: the client gets no response.
  case silent
  /// The worker stops.
  case workerStops
}
