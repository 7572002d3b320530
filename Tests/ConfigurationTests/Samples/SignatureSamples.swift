extension DirectiveSample {
  /// The samples of message signatures, which verify in the location.
  static let signatures: [String: DirectiveSample] = {
    let key = "message_signature_key k hmac-sha256 a.key;"
    let verify = key + " message_signature verify;"
    return [
      "message_signature": .init("message_signature verify;", beside: key),
      "message_signature_key": .init(
        "message_signature_key k hmac-sha256 a.key;", or: "message_signature_key k hmac-sha256 b.key;",
        beside: "message_signature verify;"),
      "message_signature_components": .init("message_signature_components @path;", beside: verify),
      "message_signature_max_age": .init("message_signature_max_age 7s;", beside: verify),
      "message_signature_expires": .init("message_signature_expires 7s;", beside: key + " message_signature sign;"),
      "message_signature_nonce": .init("message_signature_nonce on;", beside: verify),
      "message_signature_label": .init("message_signature_label a;", beside: verify),
    ]
  }()
}
