private let levels = DirectiveContexts.everyHTTP

/// Message envelopes, which are ours.
let envelopeDirectives: [DirectiveEntry] = [
  .value(
    "message_envelope", levels, .flag, "off",
    "Bodies of requests are envelopes, which are opened, and bodies of answers are sealed."),
  .value(
    "message_envelope_cipher", levels, .oneOf(["aes-128-cbc", "aes-256-cbc", "aes-256-gcm"]), "",
    "How bodies are encrypted."),
  .value(
    "message_envelope_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
    "The cipher's key, as hexadecimal digits or base64: the current one, then the previous."),
  .value(
    "message_envelope_mac", levels, .words(1...Int.max, "hmac-sha256 | hmac-sha1 [payload | fields NAME …] | none"),
    "hmac-sha256 payload",
    "What vouches for a plain body: a code over all of it, or over members of it as a JSON object; `none` with aes-256-gcm only."
  ),
  .value(
    "message_envelope_mac_key", levels, .words(1...2, "MATERIAL [MATERIAL]"), "",
    "The MAC's keys, in the order of the cipher's."),
  .value(
    "message_envelope_replay_window", levels, .words(1...1, "TIME | off"), "off",
    "An envelope whose IV was seen within this time is refused."),
  .value(
    "message_envelope_max_size", levels, .size, "1m",
    "The largest envelope of a request (413), and the largest body of an answer (502)."),
]
