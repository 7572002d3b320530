public import Crypto
public import Envelope
public import Observability

/// `message_envelope on` for one location, and what goes with it.
public struct EnvelopeSettings: PassPart, Hashable {
  /// A cipher's key, and the MAC's that goes with it.
  public struct KeyFiles: Sendable, Hashable {
    public var cipher: MaterialReference
    public var mac: MaterialReference?
  }

  public var suite: EnvelopeSuite
  public var current: KeyFiles
  public var previous: KeyFiles?
  /// Milliseconds; nil: replays are not looked for.
  public var replayWindow: UInt64?
  /// Where the IVs of all machines are remembered; nil: in this process alone.
  package var replayStore: StoreUse?
  /// Bytes of an envelope, and of an answer's body.
  public var maxSize: Int
  /// Files that change are taken up (`ssl_reload`).
  public var reloads: Bool
  /// The `proxy_pass`: two locations have two envelopes, though they be alike.
  public var location: SourceLocation

  /// More is not kept in memory for one message.
  public static let sizeLimit = 256 << 20

  /// Whoever can seal for one can for the other.
  func hasKeys(of other: EnvelopeSettings) -> Bool {
    suite == other.suite && current == other.current && previous == other.previous
  }

  public var keyFiles: [MaterialReference] {
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
