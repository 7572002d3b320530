import Negotiation

/// What the first bytes of a client say; all empty where they begin no TLS.
package struct PrereadFacts {
  /// Lower case, without a trailing dot.
  package var serverName: [UInt8] = []
  package var protocols: [[UInt8]] = []
  package var version = ""

  package enum Reading {
    case incomplete
    /// The client has ended its side.
    case ended
    /// The buffer is full, and the ClientHello isn't whole.
    case full
    case known(PrereadFacts)
  }

  /// `isFull`: no further bytes would fit. `hasEnded`: none will come.
  package static func read(_ bytes: UnsafeRawBufferPointer, isFull: Bool, hasEnded: Bool) -> Reading {
    switch ClientHelloReader.read(bytes) {
    case .incomplete: isFull ? .full : hasEnded ? .ended : .incomplete
    case .notTLS: .known(PrereadFacts())
    case .hello(let facts):
      .known(
        PrereadFacts(
          serverName: facts.serverName, protocols: facts.protocols,
          version: ClientHelloReader.versionName(facts.version)))
    }
  }
}
