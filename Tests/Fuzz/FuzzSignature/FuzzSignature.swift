import Bytes
import Crypto
import FuzzSupport
import HTTP
import Signature

/// The first byte chooses what the rest is: fields of a signed request, one below the other, or a component.
///
/// Holds: nothing crashes; no input is a valid signature, because nobody has the secret; a signer's fields stay valid
/// whatever signatures were there before.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1, let key = SignatureKey(secret: SecretBytes([UInt8](repeating: 0x5A, count: 32))) else { return 0 }
  let rest = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  if start[0] & 1 == 1 {
    _ = try? Component(parsing: String(decoding: rest, as: UTF8.self))
    return 0
  }
  let lines = rest.split(separator: 0x0A, maxSplits: 3, omittingEmptySubsequences: false).map { Array($0) }
  let names = ["Signature-Input", "Signature", "Content-Digest", "X-Field"]
  let fields = zip(names, lines).map { name, value in
    Array(name.utf8).withUnsafeBytes { name in value.withUnsafeBytes { SignedMessage.Field(name, $0) } }
  }
  let message = SignedMessage(
    method: Array("GET".utf8), isTLS: true, authority: Array("a.test".utf8), target: Array("/a?b=c".utf8),
    fields: fields)
  let required = (try? [Component(parsing: "@method")]) ?? []
  let policy = SignatureVerifier.Policy(label: nil, required: required, maxAge: 300, skew: 10, requiresNonce: false)
  let verifier = SignatureVerifier(policy, keys: [Array("k".utf8): key], standIn: nil)
  require((try? verifier?.verify(message, hasBody: false, now: 1_700_000_000)) == nil)

  let label = Array("mine".utf8)
  let signer = MessageSigner(
    .init(label: label, keyID: Array("k".utf8), components: required, lifetime: nil, hasNonce: false), key)
  guard let made = try? signer.sign(message, hasBody: false, now: 1_700_000_000) else { return 0 }
  // With 64 signatures of others there is no room for one more.
  guard made.input.count < FieldParser.mostBytes, made.signature.count < FieldParser.mostBytes,
    (try? FieldParser.dictionary(made.input)) != nil, (try? FieldParser.dictionary(made.signature)) != nil
  else { return 0 }
  var signed = message
  signed.replace(Array("signature-input".utf8), by: made.input)
  signed.replace(Array("signature".utf8), by: made.signature)
  let named = SignatureVerifier(
    .init(label: label, required: required, maxAge: 300, skew: 10, requiresNonce: false),
    keys: [Array("k".utf8): key], standIn: nil)
  require((try? named?.verify(signed, hasBody: false, now: 1_700_000_000)) != nil)
  return 0
}
