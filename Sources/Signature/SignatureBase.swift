/// The text that a signature signs (RFC 9421 §2.5).
enum SignatureBase {
  /// Returns what there is of the text, with the first fault. A message with a fault costs the same work to verify as one
  /// without.
  static func text(
    of message: SignedMessage, _ components: [Component], _ parameters: [FieldParameter]
  ) -> (text: [UInt8], fault: ComponentError?) {
    var text: [UInt8] = []
    var fault: ComponentError?
    for component in components {
      FieldWriter.write(component.item, to: &text)
      text += [0x3A, 0x20]
      do throws(ComponentError) { text += try message.value(of: component) } catch { fault = fault ?? error }
      text.append(0x0A)
    }
    text += Array("\"@signature-params\": ".utf8)
    FieldWriter.write(components.map(\.item), parameters, to: &text)
    return (text, fault)
  }
}

/// The parameters of a signature (RFC 9421 §2.3).
struct SignatureParameters {
  var created: Int64?
  var expires: Int64?
  var nonce: [UInt8]?
  var algorithm: [UInt8]?
  var keyID: [UInt8]?

  /// Throws at a parameter that it doesn't know: it could limit what the signature is for.
  init(_ parameters: [FieldParameter]) throws(SignatureFault) {
    for parameter in parameters {
      switch (String(decoding: parameter.key, as: UTF8.self), parameter.value) {
      case ("created", .integer(let time)): created = time
      case ("expires", .integer(let time)): expires = time
      case ("nonce", .string(let text)): nonce = text
      case ("alg", .string(let text)): algorithm = text
      case ("keyid", .string(let text)): keyID = text
      case ("tag", .string): break
      default: throw .parameter(parameter.key)
      }
    }
  }
}

/// Why a signature isn't valid, for the log only. The client gets the same response for all reasons.
public enum SignatureFault: Error, Sendable, Hashable, CustomStringConvertible {
  case unsigned
  case field(String, FieldError)
  /// A member of Signature-Input is no inner list, or one of Signature is no byte sequence.
  case member([UInt8])
  /// Only one of the two fields has the label.
  case unpaired([UInt8])
  case noLabel([UInt8])
  /// The request has this many signatures, and no label is configured.
  case several(Int)
  case parameter([UInt8])
  case component(ComponentError)
  case notCovered(String)
  case manyParsed
  case noKeyID
  case unknownKey([UInt8])
  case algorithm([UInt8], expected: String)
  case notCreated
  case future(seconds: Int64)
  case old(seconds: Int64)
  case expired
  case noNonce
  case nonceSize
  case replayed
  /// It is older than the nonces that are remembered, so its own may have been used.
  case forgotten
  case forged
  case digest(String)
  case certificate

  public var description: String {
    // As a string of a structured field: printable, and with each quote escaped.
    func text(_ bytes: [UInt8]) -> String {
      var text: [UInt8] = []
      FieldWriter.write(.string(Array(bytes.prefix(256))), to: &text)
      return String(decoding: text, as: UTF8.self)
    }
    return switch self {
    case .unsigned: "it has no Signature-Input"
    case .field(let name, let error): "its \(name) is \(error)"
    case .member(let label): "the signature \(text(label)) has not the form of one"
    case .unpaired(let label): "only one of Signature-Input and Signature has \(text(label))"
    case .noLabel(let label): "it has no signature \(text(label))"
    case .several(let count): "it has \(count) signatures, and message_signature_label names none of them"
    case .parameter(let key): "the parameter \(text(key)) is unknown or of another type"
    case .component(let error): "it covers \(error)"
    case .notCovered(let name): "it does not cover \(name)"
    case .manyParsed: "it covers more than \(SignatureVerifier.mostParsed) components that must be parsed"
    case .noKeyID: "it has no keyid"
    case .unknownKey(let id): "the keyid \(text(id)) is unknown"
    case .algorithm(let name, let expected): "its alg is \(text(name)), but the key's is \"\(expected)\""
    case .notCreated: "it has no created"
    case .future(let seconds): "it was created \(seconds) s in the future"
    case .old(let seconds): "it was created \(seconds) s ago"
    case .expired: "it has expired"
    case .noNonce: "it has no nonce"
    case .nonceSize: "its nonce is empty or longer than \(SignatureVerifier.mostNonceBytes) bytes"
    case .replayed: "its nonce was seen before"
    case .forgotten: "it is older than the nonces that are remembered, since message_signature_max_age was raised"
    case .forged: "it is not authentic"
    case .digest(let fault): "its Content-Digest \(fault)"
    case .certificate: "its Client-Cert is not the certificate of the connection"
    }
  }
}
