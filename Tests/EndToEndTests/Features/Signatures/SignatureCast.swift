import Bytes
import Crypto
import Foundation
import Signature
import TestSupport
import Testing

/// A secret in a scene's folder, and a client that signs with it.
struct SignatureCast: Sendable {
  let scene: Scene
  let key: SignatureKey

  static let secret = String(repeating: "5a", count: 32)

  init(_ scene: Scene) throws {
    self.scene = scene
    let path = try scene.write("k.key", text: Self.secret)
    key = try SignatureKey.load(MaterialReference(path: path), .hmacSHA256, to: .verify)
  }

  /// The directives of the location.
  func lines(_ more: String = "") -> String {
    "message_signature verify; message_signature_key k hmac-sha256 k.key; \(more)"
  }

  /// The fields of a signed request, as words of curl.
  func sign(
    _ method: String = "GET", _ port: UInt16, _ target: String, body: [UInt8] = [], fields: [String] = [],
    components: [String] = ["@method", "@target-uri", "content-digest"], keyID: String = "k", nonce: Bool = false,
    secondsAgo: Int64 = 0, isTLS: Bool = false, host: String = "127.0.0.1"
  ) throws -> [String] {
    var all = fields
    if !body.isEmpty {
      let digest = body.withUnsafeBytes { ContentDigest.value(of: $0) }
      all.append("Content-Digest: \(String(decoding: digest, as: UTF8.self))")
    }
    let message = SignedMessage(
      method: Array(method.utf8), isTLS: isTLS, authority: Array("\(host):\(port)".utf8), target: Array(target.utf8),
      fields: all.map { line in
        let parts = line.split(separator: ":", maxSplits: 1)
        return Array(String(parts[0]).utf8).withUnsafeBytes { name in
          Array(parts[1].drop { $0 == " " }.utf8).withUnsafeBytes { SignedMessage.Field(name, $0) }
        }
      })
    let signer = MessageSigner(
      .init(
        label: Array("sig1".utf8), keyID: Array(keyID.utf8),
        components: try components.map { try Component(parsing: $0) }, lifetime: nil, hasNonce: nonce), key)
    let made = try signer.sign(message, hasBody: !body.isEmpty, now: Int64(Date().timeIntervalSince1970) - secondsAgo)
    all += [
      "Signature-Input: \(String(decoding: made.input, as: UTF8.self))",
      "Signature: \(String(decoding: made.signature, as: UTF8.self))",
    ]
    return (method == "GET" && body.isEmpty ? [] : ["-X", method]) + all.flatMap { ["-H", $0] }
  }
}

extension PlainProxy {
  /// Sends a signed request; `sent` is the body if it is another than the signed one.
  func signed(
    _ cast: SignatureCast, _ method: String = "GET", _ target: String = "/head", body: [UInt8] = [],
    nonce: Bool = false
  ) async throws -> CurlResult {
    try await curl(
      target, try cast.sign(method, port, target, body: body, nonce: nonce), input: body.isEmpty ? nil : body)
  }
}

/// The package http-message-signatures of PyPI.
enum SignaturePython {
  /// ALGORITHM KEYFILE URL METHOD BODY: prints the fields of a signed request.
  static let sign = #"""
    import sys
    from http_message_signatures import HTTPMessageSigner
    from requests_like import Request, Resolver, ALGORITHMS
    algorithm, key, url, method, body = sys.argv[1:6]
    request = Request(method, url, {})
    if body: request.headers["Content-Type"] = "text/plain"
    signer = HTTPMessageSigner(signature_algorithm=ALGORITHMS[algorithm], key_resolver=Resolver(algorithm, key))
    signer.sign(request, key_id="k", covered_component_ids=("@method", "@target-uri") + (("content-digest", "content-type") if body else ()),
                body=body.encode() if body else None)
    for name, value in request.headers.items(): print(f"{name}: {value}")
    """#

  /// ALGORITHM KEYFILE URL METHOD, and the fields and the body in files: says whether the signature is valid.
  static let verify = #"""
    import sys
    from http_message_signatures import HTTPMessageVerifier
    from requests_like import Request, Resolver, ALGORITHMS
    algorithm, key, url, method, head, body = sys.argv[1:7]
    lines = [line.rstrip("\r\n").split(": ", 1) for line in open(head) if ": " in line]
    request = Request(method, url, {name: value for name, value in lines})
    verifier = HTTPMessageVerifier(signature_algorithm=ALGORITHMS[algorithm], key_resolver=Resolver(algorithm, key))
    body = open(body, "rb").read()
    results = verifier.verify(request, require_components=("@method", "@target-uri"), body=body or None)
    print("valid", results[0].parameters["keyid"], len(results[0].covered_components))
    """#

  static let shared = #"""
    from http_message_signatures import HTTPSignatureKeyResolver, algorithms
    ALGORITHMS = {"hmac-sha256": algorithms.HMAC_SHA256, "ecdsa-p256-sha256": algorithms.ECDSA_P256_SHA256,
      "ed25519": algorithms.ED25519, "rsa-pss-sha512": algorithms.RSA_PSS_SHA512, "rsa-v1_5-sha256": algorithms.RSA_V1_5_SHA256}
    class Request:
        def __init__(self, method, url, headers): self.method, self.url, self.headers = method, url, headers
    class Resolver(HTTPSignatureKeyResolver):
        def __init__(self, algorithm, path):
            data = open(path, "rb").read()
            self.key = bytes.fromhex(data.decode().strip()) if algorithm == "hmac-sha256" else data
        def resolve_public_key(self, key_id): return self.key
        def resolve_private_key(self, key_id): return self.key
    """#
}
