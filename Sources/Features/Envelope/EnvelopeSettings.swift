package import Crypto
package import Envelope
import Forward
package import Observability
import Traffic

/// `message_envelope on` for one location, and what goes with it.
package struct EnvelopeSettings: PassPart, Hashable {
  /// A cipher's key, and the MAC's that goes with it.
  package struct KeyFiles: Sendable, Hashable {
    package var cipher: MaterialReference
    package var mac: MaterialReference?
  }

  package var suite: EnvelopeSuite
  package var current: KeyFiles
  package var previous: KeyFiles?
  /// Milliseconds; nil: replays are not looked for.
  package var replayWindow: UInt64?
  /// Where the IVs of all machines are remembered; nil: in this process alone.
  package var replayStore: StoreUse?
  /// Bytes of an envelope, and of an answer's body.
  package var maxSize: Int
  /// Files that change are taken up (`ssl_reload`).
  package var reloads: Bool
  /// The `proxy_pass`: two locations have two envelopes, though they be alike.
  package var location: SourceLocation

  /// More is not kept in memory for one message.
  package static let sizeLimit = 256 << 20

  /// Whoever can seal for one can for the other.
  func hasKeys(of other: EnvelopeSettings) -> Bool {
    suite == other.suite && current == other.current && previous == other.previous
  }

  package var keyFiles: [MaterialReference] {
    [current.cipher, current.mac, previous?.cipher, previous?.mac].compactMap { $0 }
  }

  /// What the envelopes are, for the policy that `check` prints.
  package var inWords: String {
    let authentication =
      switch suite.mac?.scope {
      case .payload: "\(suite.mac?.algorithm.rawValue ?? "") of the body"
      case .fields(let names):
        "\(suite.mac?.algorithm.rawValue ?? "") of ONLY \(names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: ", "))"
      case nil: "its tag"
      }
    let replays = replayWindow.map { "replays refused for \($0 / 1000) s" } ?? "replays NOT refused"
    return "\(suite.cipher.rawValue), \(authentication), \(previous == nil ? "one key" : "two keys"), \(replays)"
  }
}
