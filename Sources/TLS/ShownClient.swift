import COpenSSL
package import Crypto

/// What a client has shown in a handshake, for a record of clients. A handshake that nobody records asks for none of it.
extension TLSStream {
  /// Server side: tells the certificates of this handshake from others; nil if the client has shown none. A handshake whose
  /// chain was looked for has computed it, and a resumed one has the leaf alone.
  package var shownDigest: [UInt8]? {
    if let digest = judgement?.digest { return digest }
    let shown = shownCertificates
    return shown.isEmpty ? nil : Digest.of(isResumed ? shown[0].der : shown.flatMap(\.der))
  }

  /// Server side: the certificates that the client has sent, the leaf first. A resumed session keeps the leaf; the others are
  /// those by which the handshake before it was verified, without the trust anchor.
  package var shownCertificates: [Certificate] {
    guard refusedChain.isEmpty else { return refusedChain }
    let sent = ssl.map { Self.sent(by: $0) } ?? []
    guard let leaf = sent.first else { return [] }
    return isResumed ? [leaf] + (verifiedClient?.chain?.others ?? []).filter { !$0.isSelfIssued } : sent
  }

  /// Server side: why the handshake refused the client's certificate; nil if it did not.
  package var shownRefusal: ShownRefusal? {
    guard let judgement, !judgement.isLetIn else { return nil }
    if let denial = judgement.denial { return .rule(denial) }
    if case .refused(_, _, let reason, _) = judgement.verdict { return .certificate(reason) }
    return .certificate(OpenSSLMeaning.text(verification: Int(judgement.code)))
  }
}

/// Why a handshake refused a client's certificate.
package enum ShownRefusal: Sendable {
  case certificate(String)
  /// The access rules of the server block.
  case rule(String)
}

extension ServerTLSContext {
  /// Judges the certificates of an earlier handshake as one at that time would, with the same code: by CAs, CRLs, pins,
  /// depth, purpose and, under `ssl_verify_reject handshake`, access rules. Nobody proves to have the key, no cache is used,
  /// and no responder is asked. `chooser`: the listener that knows the rules. `renewsLists`: lists that have ended by then
  /// count as renewed. `moment`: seconds since 1970.
  package func judge(
    recorded certificates: [Certificate], at moment: Int64, by chooser: ServerChooser?, renewsLists: Bool = false
  ) -> ClientJudgement {
    guard let leaf = certificates.first, settings.verification != .off else { return .absent(at: moment) }
    return ClientJudge.judge(
      leaf, sent: Array(certificates.dropFirst()), at: moment, by: ClientPolicy(context: self, chooser: chooser),
      .record(renewsLists: renewsLists))
  }
}

extension ClientJudgement {
  /// By what the client counts; nil if by nothing.
  package var client: VerifiedClient? { verdict.client }
}

extension ServerTLSContext {
  /// By their names in OpenSSL.
  static let versionNumbers = [
    "TLSv1": TLS1_VERSION, "TLSv1.1": TLS1_1_VERSION, "TLSv1.2": TLS1_2_VERSION, "TLSv1.3": TLS1_3_VERSION,
  ]

  /// Whether a handshake may settle on this version, by its name in OpenSSL (`TLSv1.2`). One without a name here may.
  package func takes(version name: String) -> Bool {
    let holes = [
      "TLSv1": COPENSSL_OP_NO_TLSv1, "TLSv1.1": COPENSSL_OP_NO_TLSv1_1, "TLSv1.2": COPENSSL_OP_NO_TLSv1_2,
      "TLSv1.3": COPENSSL_OP_NO_TLSv1_3,
    ]
    guard let version = Self.versionNumbers[name], let off = holes[name] else { return true }
    let (least, most) = (copenssl_ctx_get_min_proto(handle), copenssl_ctx_get_max_proto(handle))
    return Int(version) >= Int(least) && (most == 0 || Int(version) <= Int(most))
      && UInt64(SSL_CTX_get_options(handle)) & UInt64(off) == 0
  }
}

extension TrustAnchors {
  /// Whether certificates that a peer has sent, the leaf first, lead to an anchor at a moment, whatever the leaf is for.
  /// `moment`: seconds since 1970.
  package func vouch(for certificates: [Certificate], at moment: Int64) -> Bool {
    guard let leaf = certificates.first, let sent = copenssl_sk_X509_new() else { return false }
    defer {
      // Only the stack: the certificates outlive the search.
      copenssl_sk_X509_free(sent)
      OpenSSLError.discard()
    }
    for certificate in certificates.dropFirst() where copenssl_sk_X509_push(sent, certificate.handle) <= 0 {
      return false
    }
    let search = ChainVerification(depth: 10, level: 0, use: .any, moment: moment)
    if case .verified = search.find(leaf: leaf.handle, sent: sent, anchors: self, partial: false) { return true }
    return false
  }
}

extension Certificate {
  /// The hash function of the certificate's signature, by OpenSSL's name (`SHA1`); empty for a signature without one.
  package var signatureHash: String {
    var hash = NID_undef
    guard X509_get_signature_info(handle, &hash, nil, nil, nil) == 1, hash != NID_undef, let name = OBJ_nid2sn(hash)
    else {
      return ""
    }
    return String(cString: name)
  }
}
