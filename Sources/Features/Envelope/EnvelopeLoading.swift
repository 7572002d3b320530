import Bytes
import Crypto
package import Envelope
import Forward
import Observability
package import Traffic

/// The envelopes of all locations that have one.
package struct EnvelopeMaterial: GenerationPart {
  package var envelopes: [EnvelopeSettings: MessageEnvelope] = [:]
  package init() {}
}

extension MessageEnvelopes {
  /// Tries every key, to report all faults at once.
  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    var keys: [EnvelopeSettings: EnvelopeKeys] = [:]
    http.visitLocations { location in
      guard let settings = location[UpstreamPass.self]?[EnvelopeSettings.self], keys[settings] == nil else { return }
      keys[settings] = loader.envelopeKeys(settings)
    }
    // Locations with a key in common share its window, so the longest of their spans counts.
    var spans: [[UInt8]: UInt64] = [:]
    for (settings, keys) in keys {
      for pair in keys.pairs { spans[pair.identity] = max(spans[pair.identity] ?? 0, settings.replayWindow ?? 0) }
    }
    let replays = shared.replays
    replays.dropEnded(now: MonotonicClock.milliseconds)
    let made = keys.map { settings, keys in
      let span = keys.pairs.compactMap { spans[$0.identity] }.max() ?? 0
      let guarded = settings.replayWindow.map { _ in replays.replayGuard(of: keys, span: span) }
      return (settings, MessageEnvelope(keys, replays: guarded, maxSize: settings.maxSize))
    }
    parts[EnvelopeMaterial.self].envelopes = Dictionary(made) { first, _ in first }
  }
}

struct EnvelopeUnit: MaterialUnit {
  typealias Content = EnvelopeKeys.Pair
  let files: EnvelopeSettings.KeyFiles
  let suite: EnvelopeSuite
  /// What a block with `ssl_reload off` keeps is not what others load anew.
  let reloads: Bool
}

extension MaterialLoader {
  /// Returns nil after adding the reason to the diagnostics.
  fileprivate mutating func envelopeKeys(_ settings: EnvelopeSettings) -> EnvelopeKeys? {
    let current = envelopePair(settings.current, settings)
    guard let previous = settings.previous else { return current.map { EnvelopeKeys(settings.suite, current: $0) } }
    let loaded = envelopePair(previous, settings)
    guard let current, let loaded else { return nil }
    return EnvelopeKeys(settings.suite, current: current, previous: loaded)
  }

  private mutating func envelopePair(
    _ files: EnvelopeSettings.KeyFiles, _ settings: EnvelopeSettings
  ) -> EnvelopeKeys.Pair? {
    let suite = settings.suite
    return unit(
      EnvelopeUnit(files: files, suite: suite, reloads: settings.reloads),
      UnitFiles(.cipherKey, [files.cipher, files.mac].compactMap { $0 }),
      reloads: settings.reloads
    ) { $0.loadEnvelopePair(files, suite) }
  }

  private mutating func loadEnvelopePair(
    _ files: EnvelopeSettings.KeyFiles, _ suite: EnvelopeSuite
  ) -> EnvelopeKeys.Pair? {
    let count = suite.cipher.keyCount
    let cipher = attempt { () throws(MaterialError) in
      try SymmetricKeyFile.load(files.cipher, expecting: .cipherKey, lengths: count...count)
    }
    guard let file = files.mac else { return cipher.flatMap { envelopePair(suite, $0, nil, files.cipher) } }
    let mac = attempt { () throws(MaterialError) in
      try SymmetricKeyFile.load(file, expecting: .macKey, lengths: EnvelopeKeys.macKeyCounts)
    }
    guard let cipher, let mac else { return nil }
    return envelopePair(suite, cipher, mac, file)
  }

  private mutating func envelopePair(
    _ suite: EnvelopeSuite, _ cipher: SecretBytes, _ mac: SecretBytes?, _ file: MaterialReference
  ) -> EnvelopeKeys.Pair? {
    attempt { () throws(MaterialError) in
      if let pair = EnvelopeKeys.Pair(suite, cipherKey: cipher, macKey: mac) { return pair }
      throw MaterialError(
        culprit: file.description, location: file.location,
        message: "this OpenSSL has not got \(suite.mac?.algorithm.rawValue ?? suite.cipher.rawValue)",
        hint: "another message_envelope_mac")
    }
  }
}
