import Bytes
import Forward
import HTTP
import Observability
import Signature
import Traffic

/// Signs the requests of a pass.
final class SignatureHook: RequestHook {
  private let signer: MessageSigner

  init(_ signer: MessageSigner) { self.signer = signer }

  override func complete(_ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool) -> Bool {
    SignatureSigning.sign(outgoing, of: exchange, isTLS: isTLS, signer)
  }
}

/// Signs the request for the upstream as `RequestRewrite` has built it.
enum SignatureSigning {
  /// The client's fields that the signer writes anew.
  static let signatureFields = ["Signature", "Signature-Input"]

  /// Adds the fields of a signature. Returns false when the request can't be signed; it then goes to no upstream.
  static func sign(
    _ outgoing: OutgoingRequestHead, of exchange: Exchange, isTLS: Bool, _ signer: MessageSigner
  ) -> Bool {
    var body: RequestBody?
    if case .collected(let kept) = exchange.body.state, kept.count > 0 { body = kept }
    if signer.coversDigest, let body {
      guard let digest = body.sha256() else { return fail("the body has no digest", exchange) }
      let isAdded = ContentDigest.value(sha256: digest).withUnsafeBytes { outgoing.add("Content-Digest", $0) }
      guard isAdded else { return fail("its Content-Digest is invalid", exchange) }
    }
    var fields: [SignedMessage.Field] = []
    outgoing.forEachField { fields.append(SignedMessage.Field($0, $1)) }
    if case .length(let length) = outgoing.framing {
      Array("content-length".utf8).withUnsafeBytes { name in
        Array("\(length)".utf8).withUnsafeBytes { fields.append(SignedMessage.Field(name, $0)) }
      }
    }
    // Those of the client were not forwarded: the signer keeps its other signatures.
    let head = exchange.head, bytes = head.bytes.readable
    for field in head.fields where signatureFields.contains(where: { bytes[field.name].isSame(as: $0) }) {
      fields.append(SignedMessage.Field(bytes[field.name], bytes[field.value]))
    }
    let host = fields.first { $0.name == Array("host".utf8) }?.value ?? []
    let message = SignedMessage(
      method: Array(outgoing.method), isTLS: isTLS, authority: host,
      target: Array(outgoing.target), fields: fields)
    exchange.worker.clock.update()
    do throws(MessageSigner.Fault) {
      let signed = try signer.sign(message, hasBody: body != nil, now: exchange.worker.clock.seconds)
      let isAdded =
        signed.input.withUnsafeBytes { outgoing.add("Signature-Input", $0) }
        && signed.signature.withUnsafeBytes { outgoing.add("Signature", $0) }
      return isAdded || fail("its fields are invalid", exchange)
    } catch {
      return fail(error.description, exchange)
    }
  }

  private static func fail(_ reason: String, _ exchange: Exchange) -> Bool {
    exchange.log(.error, "the request for the upstream can't be signed: \(reason)")
    // The response is 500: the fault is not the client's.
    exchange.setBroken(true)
    return false
  }
}

extension UnsafeRawBufferPointer {
  fileprivate func isSame(as name: String) -> Bool {
    Array(name.utf8).withUnsafeBytes { equalsIgnoringCase($0) }
  }
}
