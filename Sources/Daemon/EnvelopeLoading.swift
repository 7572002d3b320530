import Crypto
import Bytes
import Envelope
import Observability
import Proxy

extension KeyMaterial {
  /// Loads the envelopes of all locations. Tries every key, to report all faults at once.
  static func envelopes(
    of http: HTTPSettings, _ loader: inout MaterialLoader
  ) -> (made: [EnvelopeSettings: MessageEnvelope], keys: [EnvelopeSettings: EnvelopeKeys]) {
    var keys: [EnvelopeSettings: EnvelopeKeys] = [:]
    for settings in http.everyLocation.compactMap(\.settings.envelope) where keys[settings] == nil {
      keys[settings] = loader.former.envelopeKeys[settings] ?? loader.envelopeKeys(settings)
    }
    // Locations with a key in common share its window, so the longest of their spans counts.
    var spans: [[UInt8]: UInt64] = [:]
    for (settings, keys) in keys {
      for pair in keys.pairs { spans[pair.identity] = max(spans[pair.identity] ?? 0, settings.replayWindow ?? 0) }
    }
    let replays = loader.shared.replays
    replays.dropEnded(now: MonotonicClock.milliseconds)
    let made = keys.map { settings, keys in
      let span = keys.pairs.compactMap { spans[$0.identity] }.max() ?? 0
      let guarded = settings.replayWindow.map { _ in replays.replayGuard(of: keys, span: span) }
      return (settings, MessageEnvelope(keys, replays: guarded, maxSize: settings.maxSize))
    }
    return (Dictionary(made) { first, _ in first }, keys)
  }
}

extension MaterialLoader {
  /// Returns nil after adding the reason to the diagnostics.
  mutating func envelopeKeys(_ settings: EnvelopeSettings) -> EnvelopeKeys? {
    let current = envelopePair(settings.current, settings.suite)
    guard let previous = settings.previous else { return current.map { EnvelopeKeys(settings.suite, current: $0) } }
    let loaded = envelopePair(previous, settings.suite)
    guard let current, let loaded else { return nil }
    return EnvelopeKeys(settings.suite, current: current, previous: loaded)
  }

  private mutating func envelopePair(_ files: EnvelopeSettings.KeyFiles, _ suite: EnvelopeSuite) -> EnvelopeKeys.Pair? {
    let key = MaterialUnits.Envelope(files: files, suite: suite)
    return unit(\.envelopes, key, UnitFiles(.cipherKey, [files.cipher, files.mac].compactMap { $0 })) {
      $0.loadEnvelopePair(files, suite)
    }
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

extension LocationSettings {
  var envelope: EnvelopeSettings? { self[UpstreamPass.self]?.envelope }
}
