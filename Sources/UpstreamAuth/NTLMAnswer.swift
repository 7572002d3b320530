import Bytes
import Crypto

/// Makes a client's NTLMv2 messages: NEGOTIATE (type 1) and AUTHENTICATE (type 3). Never sends anything of NTLMv1.
package enum NTLMAnswer {
  /// MS-NLMP §2.2.1.1, without domain and workstation.
  package static let negotiate: [UInt8] = {
    var message = NTLM.signature
    message.append(uint32: 1)
    message.append(uint32: NTLM.offered)
    return message + [UInt8](repeating: 0, count: 16)
  }()

  /// The inputs of an answer besides the challenge and the password.
  package struct Circumstances: Sendable {
    /// 8 random bytes.
    package var clientChallenge: [UInt8]
    /// A FILETIME, 8 bytes. The server's time replaces it if the server sent one.
    package var time: [UInt8]
    /// `HTTP/host`; may be empty.
    package var target: String
    /// RFC 5929 `tls-server-end-point`: the hash of the upstream's certificate; nil without TLS.
    package var endPoint: [UInt8]?

    package init(clientChallenge: [UInt8], time: [UInt8], target: String, endPoint: [UInt8]?) {
      self.clientChallenge = clientChallenge
      self.time = time
      self.target = target
      self.endPoint = endPoint
    }
  }

  /// Returns the message of §3.1.5.1.2; nil when this OpenSSL lacks MD5.
  package static func authenticate(
    _ user: UpstreamUser, _ challenge: NTLMChallenge, _ circumstances: Circumstances
  ) -> [UInt8]? {
    guard var key = responseKey(user), let proof = Proof(key, challenge, circumstances) else { return nil }
    defer { key.wipe() }
    var lanManager = [UInt8](repeating: 0, count: 24)
    if challenge.timestamp == nil {
      guard let mac = hmac(key, challenge.serverChallenge + circumstances.clientChallenge) else { return nil }
      lanManager = mac + circumstances.clientChallenge
    }
    let (domain, name) = user.domainAndName
    let fields = [lanManager, proof.response, utf16(domain), utf16(name), [], []]
    let headCount = challenge.timestamp == nil ? 72 : 88
    var message = NTLM.signature
    message.append(uint32: 3)
    var offset = headCount
    for field in fields {
      guard let count = UInt16(exactly: field.count) else { return nil }
      message.append(uint16: count)
      message.append(uint16: count)
      message.append(uint32: UInt32(offset))
      offset += field.count
    }
    message.append(uint32: challenge.flags & NTLM.offered)
    // The version stays zero, because it is not negotiated.
    message += [UInt8](repeating: 0, count: headCount - message.count)
    for field in fields { message += field }
    guard challenge.timestamp != nil else { return message }
    guard let mic = hmac(proof.sessionKey, negotiate + challenge.message + message) else { return nil }
    message.replaceSubrange(72..<88, with: mic)
    return message
  }

  /// NTOWFv2 (§3.3.2) of the password, the user in upper case, and the domain.
  static func responseKey(_ user: UpstreamUser) -> [UInt8]? {
    var password = user.password.withUnsafeBytes { utf16(String(decoding: $0, as: UTF8.self)) }
    var hash = MD4.of(password)
    defer {
      password.wipe()
      hash.wipe()
    }
    let (domain, name) = user.domainAndName
    return hmac(hash, utf16(capitals(name)) + utf16(domain))
  }

  /// NTProofStr with the data that it authenticates, and the session key derived from it.
  struct Proof {
    let response: [UInt8]
    let sessionKey: [UInt8]

    init?(_ key: [UInt8], _ challenge: NTLMChallenge, _ circumstances: Circumstances) {
      var temp: [UInt8] = [1, 1, 0, 0, 0, 0, 0, 0]
      temp += (challenge.timestamp ?? circumstances.time) + circumstances.clientChallenge + [0, 0, 0, 0]
      guard let attributes = attributes(challenge, circumstances) else { return nil }
      for attribute in attributes {
        guard let count = UInt16(exactly: attribute.value.count) else { return nil }
        temp.append(uint16: attribute.id)
        temp.append(uint16: count)
        temp += attribute.value
      }
      temp += [0, 0, 0, 0, 0, 0, 0, 0]
      guard let proof = hmac(key, challenge.serverChallenge + temp), let sessionKey = hmac(key, proof) else {
        return nil
      }
      response = proof + temp
      self.sessionKey = sessionKey
    }
  }

  /// Returns the server's attributes. For a server that sent its time, adds the MIC flag, the channel bindings and the
  /// target name.
  private static func attributes(
    _ challenge: NTLMChallenge, _ circumstances: Circumstances
  ) -> [NTLMChallenge.Attribute]? {
    guard challenge.timestamp != nil else { return challenge.attributes }
    let ours = [NTLM.attributeFlags, NTLM.channelBindings, NTLM.targetName]
    let former = challenge.attributes.first { $0.id == NTLM.attributeFlags }?.value.uint32(0) ?? 0
    var flags: [UInt8] = []
    flags.append(uint32: former | 2)
    var bindings = [UInt8](repeating: 0, count: 16)
    if let endPoint = circumstances.endPoint {
      // gss_channel_bindings_struct (RFC 2744 §3.11): no addresses, then the application's data.
      let data = Array("tls-server-end-point:".utf8) + endPoint
      var structure = [UInt8](repeating: 0, count: 16)
      structure.append(uint32: UInt32(clamping: data.count))
      guard let hash = AuthenticationDigest.md5.of(structure + data) else { return nil }
      bindings = hash
    }
    return challenge.attributes.filter { !ours.contains($0.id) } + [
      .init(id: NTLM.attributeFlags, value: flags), .init(id: NTLM.channelBindings, value: bindings),
      .init(id: NTLM.targetName, value: utf16(circumstances.target)),
    ]
  }

  private static func hmac(_ key: [UInt8], _ message: [UInt8]) -> [UInt8]? {
    AuthenticationDigest.md5.hmac(key: key, message)
  }

  private static func utf16(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for unit in text.utf16 { bytes.append(uint16: unit) }
    return bytes
  }

  /// Maps each character to one, as Windows does: `ß` does not become `SS`.
  private static func capitals(_ text: String) -> String {
    var capitals = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      let mapped = scalar.properties.uppercaseMapping.unicodeScalars
      capitals.append(mapped.count == 1 ? mapped.first ?? scalar : scalar)
    }
    return String(capitals)
  }
}
