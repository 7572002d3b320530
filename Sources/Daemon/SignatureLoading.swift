import Crypto
import Proxy
import Signature

extension KeyMaterial {
  /// Loads the keys of all signatures. Tries every key, to report all faults at once.
  static func signatures(of http: HTTPSettings, _ loader: inout MaterialLoader) -> SignatureMaterial {
    var made = SignatureMaterial()
    let former = loader.former.signatures
    for (_, location) in http.everyLocation {
      for settings in location.signatures where made.verifiers[settings] == nil && made.signers[settings] == nil {
        if let kept = former.verifiers[settings] {
          made.verifiers[settings] = kept
        } else if let kept = former.signers[settings] {
          made.signers[settings] = kept
        } else if let keys = loader.signatureKeys(settings) {
          made.add(settings, keys)
        }
      }
    }
    return made
  }
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

  /// What a generation keeps for `ssl_reload off`.
  var unwatched: SignatureMaterial {
    var kept = SignatureMaterial()
    kept.verifiers = verifiers.filter { !$0.key.reloads }
    kept.signers = signers.filter { !$0.key.reloads }
    return kept
  }
}

extension MaterialLoader {
  /// Returns nil after adding the reasons to the diagnostics.
  mutating func signatureKeys(_ settings: SignatureSettings) -> [SignatureKey]? {
    let purpose: SignatureKey.Purpose = settings.mode == .sign ? .sign : .verify
    let keys = settings.keys.compactMap { key in
      unit(
        \.signatures, MaterialUnits.Signing(key: key, purpose: purpose),
        UnitFiles(purpose == .sign ? .signingKey : .verifyingKey, key.file)
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
  var signatures: [SignatureSettings] {
    var all = self[Signatures.self].map { [$0.verification] } ?? []
    if let signing = self[UpstreamPass.self]?.signing { all.append(signing) }
    return all
  }
}
