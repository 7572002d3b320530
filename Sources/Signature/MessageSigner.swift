import Bytes
public import Crypto

/// Signs requests (RFC 9421 §3.1) by one location's settings. A value: any thread may use it.
public final class MessageSigner: Sendable {
  public struct Policy: Sendable {
    public var label: [UInt8]
    public var keyID: [UInt8]
    public var components: [Component]
    /// Seconds after `created`; nil for a signature that names no end.
    public var lifetime: Int64?
    public var hasNonce: Bool
    /// Tells verifiers what the signature is for (RFC 9421 §2.3); nil: nothing is said.
    public var tag: [UInt8]?
    /// Signatures that the request has already, under other labels, stay.
    public var keepsOthers: Bool
    /// A field is covered only where the request has it.
    public var skipsAbsentFields: Bool

    public init(
      label: [UInt8], keyID: [UInt8], components: [Component], lifetime: Int64?, hasNonce: Bool, tag: [UInt8]? = nil,
      keepsOthers: Bool = true, skipsAbsentFields: Bool = false
    ) {
      self.tag = tag
      self.keepsOthers = keepsOthers
      self.skipsAbsentFields = skipsAbsentFields
      self.label = label
      self.keyID = keyID
      self.components = components
      self.lifetime = lifetime
      self.hasNonce = hasNonce
    }
  }

  /// The values of the two fields.
  public struct Fields: Sendable, Hashable {
    public let input: [UInt8]
    public let signature: [UInt8]
  }

  public enum Fault: Error, Sendable, Hashable, CustomStringConvertible {
    case component(ComponentError)
    case library
    case random

    public var description: String {
      switch self {
      case .component(let error): "it would cover \(error)"
      case .library: "OpenSSL can't sign with this key"
      case .random: "the kernel gave no random bytes"
      }
    }
  }

  public let policy: Policy
  private let key: SignatureKey

  public init(_ policy: Policy, _ key: SignatureKey) {
    self.policy = policy
    self.key = key
  }

  /// Whether requests with a body need a Content-Digest.
  public var coversDigest: Bool { policy.components.contains(where: \.coversDigest) }

  /// Signs a request. Signatures that it has already, under other labels, stay in the fields if the policy keeps them; one
  /// under the same label is replaced. Fields that are no signatures are dropped. `hasBody`: without a body, no digest is covered. `now`: seconds
  /// since 1970.
  public func sign(_ message: SignedMessage, hasBody: Bool, now: Int64) throws(Fault) -> Fields {
    let components = policy.components.filter { component in
      if policy.skipsAbsentFields, let field = component.field, message.values(of: field).isEmpty { return false }
      return hasBody || !component.coversDigest
    }
    let created = Time.clamped(now)
    var parameters = [FieldParameter(Array("created".utf8), .integer(created))]
    if let lifetime = policy.lifetime {
      parameters.append(FieldParameter(Array("expires".utf8), .integer(created + Time.clamped(lifetime))))
    }
    if policy.hasNonce {
      guard let random = SystemRandom.bytes(16) else { throw .random }
      parameters.append(FieldParameter(Array("nonce".utf8), .string(Array(Hex.encode(random, .lower).utf8))))
    }
    parameters.append(FieldParameter(Array("keyid".utf8), .string(policy.keyID)))
    parameters.append(FieldParameter(Array("alg".utf8), .string(Array(key.algorithm.rawValue.utf8))))
    if let tag = policy.tag { parameters.append(FieldParameter(Array("tag".utf8), .string(tag))) }
    let (text, fault) = SignatureBase.text(of: message, components, parameters)
    if let fault { throw .component(fault) }
    guard let signature = key.sign(text) else { throw .library }
    var inputs: [FieldEntry] = [], signatures: [FieldEntry] = []
    if policy.keepsOthers,
      let theirs = try? (
        SignatureFields.dictionary("signature-input", of: message), SignatureFields.dictionary("signature", of: message)
      )
    {
      inputs = theirs.0.filter { $0.key != policy.label }
      signatures = theirs.1.filter { $0.key != policy.label }
    }
    inputs.append(FieldEntry(key: policy.label, member: .list(components.map(\.item), parameters)))
    signatures.append(FieldEntry(key: policy.label, member: .item(FieldItem(.bytes(signature)))))
    var (input, output): ([UInt8], [UInt8]) = ([], [])
    FieldWriter.write(inputs, to: &input)
    FieldWriter.write(signatures, to: &output)
    return Fields(input: input, signature: output)
  }
}

/// Times in seconds, held so that no sum or difference of two overflows, and each fits in a structured field.
enum Time {
  static func clamped(_ seconds: Int64) -> Int64 { max(0, min(seconds, 99_999_999_999)) }
}
