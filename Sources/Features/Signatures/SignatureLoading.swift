import Crypto
import Observability
import Signature
import Forward
package import Traffic

extension Signatures {
  /// Tries every key, to report all faults at once.
  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    http.visitLocations { location in
      for settings in location.signatures where !parts[SignatureMaterial.self].has(settings) {
        if let keys = loader.signatureKeys(settings) { parts[SignatureMaterial.self].add(settings, keys) }
      }
    }
  }
}

struct SigningUnit: MaterialUnit {
  typealias Content = SignatureKey
  let key: SignatureSettings.Key
  let purpose: SignatureKey.Purpose
  /// What a block with `ssl_reload off` keeps is not what others load anew.
  let reloads: Bool
}

extension SignatureMaterial {
  /// `keys`: in the order of the settings.
  fileprivate mutating func add(_ settings: SignatureSettings, _ keys: [SignatureKey]) {
    switch settings.mode {
    case .verify:
      let policy = SignatureVerifier.Policy(
        label: settings.label, required: settings.components, maxAge: Int64(settings.maxAge),
        skew: Int64(settings.skew), requiresNonce: settings.hasNonce)
      let byID = Dictionary(zip(settings.keys.map(\.id), keys), uniquingKeysWith: { first, _ in first })
      verifiers[settings] = SignatureVerifier(policy, keys: byID, standIn: keys.first)
    case .sign:
      guard let key = keys.first, let id = settings.keys.first?.id else { return }
      let policy = MessageSigner.Policy(
        label: settings.label ?? SignatureFields.defaultLabel, keyID: id, components: settings.components,
        lifetime: settings.lifetime.map { Int64($0) }, hasNonce: settings.hasNonce)
      signers[settings] = MessageSigner(policy, key)
    }
  }

  fileprivate func has(_ settings: SignatureSettings) -> Bool { verifiers[settings] != nil || signers[settings] != nil }
}

extension MaterialLoader {
  /// Returns nil after adding the reasons to the diagnostics.
  fileprivate mutating func signatureKeys(_ settings: SignatureSettings) -> [SignatureKey]? {
    let purpose: SignatureKey.Purpose = settings.mode == .sign ? .sign : .verify
    let keys = settings.keys.compactMap { key in
      unit(
        SigningUnit(key: key, purpose: purpose, reloads: settings.reloads),
        UnitFiles(purpose == .sign ? .signingKey : .verifyingKey, key.file),
        reloads: settings.reloads
      ) { loader in
        loader.attempt { () throws(MaterialError) in
          try SignatureKey.load(key.file, key.algorithm, to: purpose)
        }
      }
    }
    return keys.count == settings.keys.count ? keys : nil
  }
}

extension LocationSettings {
  /// Those to verify and to sign by.
  package var signatures: [SignatureSettings] {
    var all = self[Signatures.self].map { [$0.verification] } ?? []
    if let signing = self[UpstreamPass.self]?[SignatureSettings.self] { all.append(signing) }
    return all
  }
}
