import Crypto
import Envelope
import Observability
import Language

extension SettingsBuilder {
  /// Builds `message_envelope` of a location that proxies; nil where it is off or invalid.
  mutating func envelope(_ scope: Scope, _ pass: Directive) -> EnvelopeSettings? {
    var mac: EnvelopeMAC?
    var macFault: EnvelopeMACError?
    do throws(EnvelopeMACError) {
      mac = try EnvelopeMAC.parse(scope.value("message_envelope_mac")?.arguments.map(\.text) ?? ["hmac-sha256"])
    } catch { macFault = error }
    let facts = EnvelopeFacts(scope, pass, mac: mac, macFault: macFault)
    // Each diagnostic appears once, although several locations may inherit the invalid directive.
    for diagnostic in EnvelopeRule.allCases.flatMap({ $0.diagnostics(facts) }) where !diagnostics.contains(diagnostic) {
      diagnostics.append(diagnostic)
    }
    guard facts.isOn, let cipher = facts.cipher, let suite = try? EnvelopeSuite(cipher, mac), macFault == nil,
      let keys = facts.keys
    else { return nil }
    let cipherKeys = materials(keys), macKeys = facts.macKeys.map { materials($0) } ?? []
    func files(_ index: Int) -> EnvelopeSettings.KeyFiles? {
      guard cipherKeys.indices.contains(index), mac == nil || macKeys.indices.contains(index) else { return nil }
      return .init(cipher: cipherKeys[index], mac: mac == nil ? nil : macKeys[index])
    }
    guard let current = files(0) else { return nil }
    return EnvelopeSettings(
      suite: suite, current: current, previous: files(1), replayWindow: facts.replayWindow, maxSize: facts.maxSize,
      reloads: scope.reloadsFiles, location: pass.location)
  }
}
