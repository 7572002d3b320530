import Bytes
public import Crypto

/// Verifies the signature of a request (RFC 9421 §3.2) by one location's settings. A value: any thread may use it.
public final class SignatureVerifier: Sendable {
  public struct Policy: Sendable {
    /// nil: the request must have exactly one signature.
    public var label: [UInt8]?
    public var required: [Component]
    /// Seconds since `created`.
    public var maxAge: Int64
    /// Seconds that the client's clock may be ahead.
    public var skew: Int64
    public var requiresNonce: Bool

    public init(label: [UInt8]?, required: [Component], maxAge: Int64, skew: Int64, requiresNonce: Bool) {
      self.label = label
      self.required = required
      self.maxAge = maxAge
      self.skew = skew
      self.requiresNonce = requiresNonce
    }
  }

  /// A valid signature. The nonce and the body are still to be judged.
  public struct Verified: Sendable {
    public let keyID: [UInt8]
    /// 16 octets for the replay window; nil unless a nonce is required.
    public let nonce: [UInt8]?
    /// Seconds since it was made; below 0 where the client's clock is ahead.
    public let age: Int64
    /// What the body must have; nil if the signature covers no digest.
    public let digest: ContentDigest?
  }

  public static let mostNonceBytes = 256
  /// Components for which a field or the query is parsed.
  static let mostParsed = 8
  /// Verified in place of a signature that isn't there.
  private static let noSignature = [UInt8](repeating: 0, count: 64)

  public let policy: Policy
  private let keys: [[UInt8]: SignatureKey]
  /// Does the work of a key that isn't known, so that the time doesn't tell which ones are.
  private let standIn: SignatureKey

  /// Returns nil without keys.
  public init?(_ policy: Policy, keys: [[UInt8]: SignatureKey], standIn: SignatureKey?) {
    guard let standIn = standIn ?? keys.values.first else { return nil }
    self.policy = policy
    self.keys = keys
    self.standIn = standIn
  }

  /// What is known of a signature before the work of a key.
  private struct Claim {
    var components: [Component] = []
    var parameters: [FieldParameter] = []
    var signature = SignatureVerifier.noSignature
    var keyID: [UInt8] = []
    var nonce: [UInt8]?
    var age: Int64 = 0
    var key: SignatureKey?
    var fault: SignatureFault?

    mutating func note(_ fault: SignatureFault) { if self.fault == nil { self.fault = fault } }
  }

  /// Verifies a request's signature. `hasBody`: whether a body may follow, so that its digest must be covered if that is
  /// required. `now`: seconds since 1970.
  ///
  /// A request with any fault costs the work of one key too: of the stand-in where the key isn't known.
  public func verify(_ message: SignedMessage, hasBody: Bool, now: Int64) throws(SignatureFault) -> Verified {
    let claim = claim(of: message, hasBody: hasBody, now: Time.clamped(now))
    let (text, fault) = SignatureBase.text(of: message, claim.components, claim.parameters)
    let isAuthentic = (claim.key ?? standIn).verify(claim.signature, text)
    if let fault = claim.fault { throw fault }
    if let fault { throw .component(fault) }
    guard let key = claim.key, isAuthentic else { throw .forged }
    var digest: ContentDigest?
    if claim.components.contains(where: \.coversDigest) {
      digest = try ContentDigest(Array(message.values(of: Component.contentDigest).joined(separator: [0x2C, 0x20])))
    }
    let nonce = policy.requiresNonce ? claim.nonce.map { Array(Digest.of(key.fingerprint + $0).prefix(16)) } : nil
    return Verified(keyID: claim.keyID, nonce: nonce, age: claim.age, digest: digest)
  }

  private func claim(of message: SignedMessage, hasBody: Bool, now: Int64) -> Claim {
    var claim = Claim()
    do throws(SignatureFault) {
      let found = try find(in: message)
      claim.signature = found.signature
      claim.parameters = found.parameters
      var seen: Set<Component> = []
      var parsed = 0
      for item in found.items {
        let component: Component
        do throws(ComponentError) { component = try Component(item) } catch { throw .component(error) }
        // Without these bounds, one head could cost many times its size.
        guard !seen.contains(component) else { throw .component(.doubled(component.description)) }
        guard !component.needsParsing || parsed < Self.mostParsed else { throw .manyParsed }
        parsed += component.needsParsing ? 1 : 0
        seen.insert(component)
        claim.components.append(component)
      }
      let parameters = try SignatureParameters(found.parameters)
      guard let keyID = parameters.keyID else { throw .noKeyID }
      claim.keyID = keyID
      claim.nonce = parameters.nonce
      // A structured field has at most 15 digits, so no difference overflows.
      if let created = parameters.created { claim.age = now - created }
      claim.key = keys[keyID]
      guard let key = claim.key else { throw .unknownKey(keyID) }
      if let named = parameters.algorithm, named != Array(key.algorithm.rawValue.utf8) {
        throw .algorithm(named, expected: key.algorithm.rawValue)
      }
      try check(parameters, now)
      try checkCoverage(claim.components, hasBody)
    } catch {
      claim.note(error)
    }
    return claim
  }

  /// Finds the signature to verify.
  private func find(
    in message: SignedMessage
  ) throws(SignatureFault) -> (items: [FieldItem], parameters: [FieldParameter], signature: [UInt8]) {
    let inputs = try SignatureFields.dictionary("signature-input", of: message)
    let signatures = try SignatureFields.dictionary("signature", of: message)
    guard let first = inputs.first else { throw .unsigned }
    if policy.label == nil, inputs.count > 1 { throw .several(inputs.count) }
    let label = policy.label ?? first.key
    let input = inputs.first { $0.key == label }, signature = signatures.first { $0.key == label }
    guard input != nil || signature != nil else { throw .noLabel(label) }
    guard let input, let signature else { throw .unpaired(label) }
    guard case .list(let items, let parameters) = input.member, case .item(let item) = signature.member,
      case .bytes(let bytes) = item.value
    else { throw .member(label) }
    return (items, parameters, bytes)
  }

  private func check(_ parameters: SignatureParameters, _ now: Int64) throws(SignatureFault) {
    guard let created = parameters.created else { throw .notCreated }
    if created - now > policy.skew { throw .future(seconds: created - now) }
    if now - created > policy.maxAge { throw .old(seconds: now - created) }
    if let expires = parameters.expires, expires < now || expires < created { throw .expired }
    guard policy.requiresNonce else { return }
    guard let nonce = parameters.nonce else { throw .noNonce }
    guard 1...Self.mostNonceBytes ~= nonce.count else { throw .nonceSize }
  }

  private func checkCoverage(_ components: [Component], _ hasBody: Bool) throws(SignatureFault) {
    let covered = Set(components)
    for component in policy.required where !covered.contains(component) {
      if component.coversDigest, !hasBody { continue }
      throw .notCovered(component.description)
    }
  }

  /// The value of `Accept-Signature` (RFC 9421 §5): what a request must be signed over.
  public var acceptSignature: [UInt8] {
    var text = (policy.label ?? SignatureFields.defaultLabel) + [0x3D]
    FieldWriter.write(
      policy.required.map(\.item), [FieldParameter(Array("created".utf8), .boolean(true))], to: &text)
    return text
  }
}

/// The fields Signature-Input and Signature.
public enum SignatureFields {
  public static let defaultLabel = Array("sig1".utf8)

  static func dictionary(_ name: String, of message: SignedMessage) throws(SignatureFault) -> [FieldEntry] {
    let value = Array(message.values(of: Array(name.utf8)).joined(separator: [0x2C, 0x20]))
    do throws(FieldError) { return try FieldParser.dictionary(value) } catch {
      throw .field(name == "signature" ? "Signature" : "Signature-Input", error)
    }
  }
}
