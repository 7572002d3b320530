private let levels = DirectiveContexts.everyHTTP

/// HTTP message signatures (RFC 9421), which nginx does not have.
let signatureDirectives: [DirectiveEntry] = [
  .value(
    "message_signature", levels, .oneOf(["off", "verify", "sign"]), "off",
    "`verify`: a request without a valid signature gets 401. `sign`: sallyport signs the requests for the upstream."),
  .list(
    "message_signature_key", levels, .words(3...3, "KEYID ALGORITHM MATERIAL"), "",
    "A key: hmac-sha256 with a secret as hexadecimal digits or base64; ecdsa-p256-sha256, ed25519, rsa-pss-sha512 or rsa-v1_5-sha256 with a public key to verify, or a private key to sign. To sign, exactly one."
  ),
  .value(
    "message_signature_components", levels, .words(1...Int.max, "COMPONENT …"), "@method @target-uri content-digest",
    "What a signature must cover, or covers: derived components and names of fields, with parameters as `'@query-param;name=\"x\"'`. `content-digest` applies to requests with a body."
  ),
  .value(
    "message_signature_max_age", levels, .words(1...2, "TIME [skew=TIME]"), "5m skew=10s",
    "`verify`: how long a signature is valid after `created`, and how far in the future `created` may be."),
  .value(
    "message_signature_expires", levels, .words(1...1, "TIME | off"), "off",
    "`sign`: the time from `created` to `expires`."),
  .value(
    "message_signature_nonce", levels, .flag, "off",
    "`verify`: a signature needs a nonce, and each nonce of a key is accepted once, by all workers together. `sign`: signatures get a random nonce."
  ),
  .value(
    "message_signature_label", levels, .words(1...1, "NAME"), "",
    "The signature's label. `verify`: without it, a request must have exactly one signature. `sign`: `sig1` without it."
  ),
]
