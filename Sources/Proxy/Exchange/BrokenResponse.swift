/// The end of a response that the upstream has broken off.
enum BrokenResponse {
  /// As in nginx, the client first gets all that came, at its rate, and then an end that it can't take for the response's.
  static func end(_ exchange: Exchange) {
    if let compressor = exchange.account.compression.compressor, compressor.keepsBreak() { return }
    if let pacer = exchange.account.limiting.pacer, pacer.keepsBreak() { return }
    exchange.end(.upstreamBroke)
  }
}
