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
    if case .refused(_, _, let reason) = judgement.verdict { return .certificate(reason) }
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
