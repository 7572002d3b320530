package import Language

private let levels = DirectiveContexts.everyHTTP

/// Message envelopes, which nginx does not have.
package let envelopeDirectives: [DirectiveEntry] = [
  .value(
    "message_envelope", levels, .flag, "off",
    "Whether request bodies are envelopes. sallyport opens them, and seals the bodies of responses.",
    example: "message_envelope on;", trust: .told),
  .value(
    "message_envelope_cipher", levels, .oneOf(["aes-128-cbc", "aes-256-cbc", "aes-256-gcm"]), "",
    "The cipher for bodies.", example: "message_envelope_cipher aes-256-cbc;"),
  .value(
    "message_envelope_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
    "The cipher's key, as hexadecimal digits or base64: first the current key, then the previous one.",
    example: "message_envelope_key envelope.key;"),
  .value(
    "message_envelope_mac", levels, .words(1...Int.max, "hmac-sha256 | hmac-sha1 [payload | fields NAME …] | none"),
    "hmac-sha256 payload",
    "What authenticates a plain body: a MAC over the whole body, or over listed members of a JSON object. `none` is possible only with aes-256-gcm.",
    example: "message_envelope_mac hmac-sha256 payload;"),
  .value(
    "message_envelope_mac_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
    "The MAC's keys, in the order of the cipher's keys.", example: "message_envelope_mac_key envelope.mac;"),
  .value(
    "message_envelope_replay_window", levels, .words(1...1, "TIME | off"), "off",
    "How long sallyport remembers IVs; it refuses an envelope with an IV that it remembers.",
    example: "message_envelope_replay_window 5m;"),
  .value(
    "message_envelope_max_size", levels, .size, "1m",
    "The maximum size of a request's envelope (otherwise 413), and of a response's body (otherwise 502).",
    example: "message_envelope_max_size 4m;"),
]
