import Crypto
import Bytes
import Envelope
import Proxy

extension KeyMaterial {
  /// Loads the envelopes of all locations, and the replay windows for them. Tries every key, to report all faults at
  /// once.
  static func envelopes(
    of http: HTTPSettings, _ loader: inout MaterialLoader
  ) -> (
    made: [EnvelopeSettings: MessageEnvelope], windows: [String: ReplayWindow], keys: [EnvelopeSettings: EnvelopeKeys]
  ) {
    var made: [EnvelopeSettings: MessageEnvelope] = [:]
    var windows: [String: ReplayWindow] = [:]
    var keys: [EnvelopeSettings: EnvelopeKeys] = [:]
    for (server, location) in http.everyLocation {
      guard let settings = location.envelope,
        let loaded = loader.former.envelopeKeys[settings] ?? loader.envelopeKeys(settings)
      else { continue }
      keys[settings] = loaded
      var replays: ReplayGuard?
      if let span = settings.replayWindow {
        let name = windowName(of: location, in: http.servers[server], besides: windows)
        let window = loader.former.windows[name] ?? ReplayWindow()
        windows[name] = window
        replays = ReplayGuard(window, span: span)
      }
      made[settings] = MessageEnvelope(loaded, replays: replays, maxSize: settings.maxSize)
    }
    return (made, windows, keys)
  }

  /// The name by which a reload recognises a location: its server's first name and its path, with a number if several
  /// locations have the same.
  private static func windowName(
    of location: LocationSettings, in server: ServerSettings, besides taken: [String: ReplayWindow]
  ) -> String {
    let name = "\(server.names.first?.asWritten ?? "") \(location.match.asWritten)"
    var number = 1
    while taken["\(name) \(number)"] != nil { number += 1 }
    return "\(name) \(number)"
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
  var envelope: EnvelopeSettings? { if case .proxy(let pass) = action { pass.envelope } else { nil } }
}
