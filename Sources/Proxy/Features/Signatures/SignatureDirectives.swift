package import Language

private let levels = DirectiveContexts.everyHTTP

/// HTTP message signatures (RFC 9421), which nginx does not have.
package let signatureDirectives: [DirectiveEntry] = [
  .value(
    "message_signature", levels, .oneOf(["off", "verify", "sign"]), "off",
    "`verify`: a request without a valid signature gets 401. `sign`: sallyport signs the requests for the upstream.",
    example: "message_signature off;", trust: .told),
  .list(
    "message_signature_key", levels, .words(3...3, "KEYID ALGORITHM MATERIAL"), "",
    "A key: hmac-sha256 with a secret as hexadecimal digits or base64; ecdsa-p256-sha256, ed25519, rsa-pss-sha512 or rsa-v1_5-sha256 with a public key to verify, or a private key to sign. To sign, exactly one.",
    example: "message_signature_key device-7 ed25519 device-7.pub;", trust: .told),
  .value(
    "message_signature_components", levels, .words(1...Int.max, "COMPONENT …"), "@method @target-uri content-digest",
    "What a signature must cover, or covers: derived components and names of fields, with parameters as `'@query-param;name=\"x\"'`. `content-digest` applies to requests with a body.",
    example: "message_signature_components @method @target-uri content-digest client-cert;", trust: .told),
  .value(
    "message_signature_max_age", levels, .words(1...2, "TIME [skew=TIME]"), "5m skew=10s",
    "`verify`: how long a signature is valid after `created`, and how far in the future `created` may be.",
    example: "message_signature_max_age 1m skew=5s;", trust: .told),
  .value(
    "message_signature_expires", levels, .words(1...1, "TIME | off"), "off",
    "`sign`: the time from `created` to `expires`.", example: "message_signature_expires 30s;"),
  .value(
    "message_signature_nonce", levels, .flag, "off",
    "`verify`: a signature needs a nonce, and each nonce of a key is accepted once, by all workers together. `sign`: signatures get a random nonce.",
    example: "message_signature_nonce on;", trust: .told),
  .value(
    "message_signature_label", levels, .words(1...1, "NAME"), "",
    "The signature's label. `verify`: without it, a request must have exactly one signature. `sign`: `sig1` without it.",
    example: "message_signature_label device;"),
]
