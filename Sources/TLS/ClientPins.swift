import COpenSSL
public import Crypto

/// Whom a server block let in, and by what the client's certificate counts. Only a judgement makes one.
public enum VerifiedClient: Sendable {
  /// A chain leads from the certificate to a trust anchor, and a pin matches if the server block has pins.
  case chain(VerifiedChain)
  /// A pin alone vouches for the certificate (`ssl_client_pin` without CAs), and the handshake for its key. Whatever else
  /// the certificate says, its holder wrote: names, issuer, serial number, validity.
  case pin(Certificate)

  package var leaf: Certificate {
    switch self {
    case .chain(let chain): chain.leaf
    case .pin(let leaf): leaf
    }
  }

  package var chain: VerifiedChain? { if case .chain(let chain) = self { chain } else { nil } }
}

/// The pins of a server block's clients (`ssl_client_pin`), and what they decide.
///
/// A pin is compared with the client's own certificate. Other certificates of a verified chain count for pins marked
/// `chain` only, and certificates that the client merely sent never count (CVE-2016-2402).
struct ClientPins {
  let pins: PinSet
  /// Mode `certificate`: each pinned file is the trust anchor of the one certificate that it holds, and of no other.
  private let anchors: [Certificate: TrustAnchors]

  /// The code of a certificate that no pin matches. OpenSSL itself never gives it.
  static let mismatch = X509_V_ERR_APPLICATION_VERIFICATION

  init(_ pins: PinSet) throws(TLSSettingsError) {
    self.pins = pins
    do throws(OpenSSLError) {
      var anchors: [Certificate: TrustAnchors] = [:]
      for file in pins.certificates where anchors[file] == nil {
        anchors[file] = try TrustAnchors(.certificates([file]))
      }
      self.anchors = anchors
    } catch {
      throw TLSSettingsError("the pinned certificates of clients can't be taken: \(error)")
    }
  }

  /// Whether a pin matches a client whose chain has verified.
  func match(_ chain: VerifiedChain) -> Bool {
    if pins.matches(leaf: chain.leaf) { return true }
    // A pinned certificate is the client's own: nobody means all that a pinned CA signs, as with a CA that is configured.
    return pins.mode == .publicKey && chain.others.contains(where: pins.matches(verified:))
  }

  /// Judges a client by its pins alone, where no CA is configured. Returns what it is let in as, or the fault as
  /// X509_V_ERR_….
  ///
  /// The rules are those of an upstream's pins without a chain (`TrustJudgement`): a pin of the key excuses whatever the
  /// certificate says, but no key so weak that anybody can compute it; a pinned file has its dates and its usage judged.
  /// `moment`: when; nil: now.
  func judge(
    leaf: OpaquePointer, level: Int32, purpose: ClientPurpose, at moment: Int64? = nil
  ) -> Result<VerifiedClient, ClientFault> {
    let certificate = Certificate(retaining: leaf)
    guard pins.matches(leaf: certificate) else { return .failure(ClientFault(code: Self.mismatch)) }
    let keyBits = X509_get0_pubkey(leaf).map { Int(EVP_PKEY_get_security_bits($0)) } ?? 0
    guard keyBits >= TrustPolicy.leastKeyBits else { return .failure(ClientFault(code: X509_V_ERR_EE_KEY_TOO_SMALL)) }
    guard let anchor = anchors[certificate] else { return .success(.pin(certificate)) }
    var verification = ChainVerification(depth: 0, level: level, use: .client(purpose))
    verification.moment = moment
    switch verification.find(leaf: leaf, sent: nil, anchors: anchor, partial: true) {
    case .verified(let chain): return .success(.chain(chain))
    case .faulty(let fault): return .failure(ClientFault(code: fault.code))
    case .unseen: return .failure(ClientFault(code: X509_V_ERR_UNSPECIFIED))
    }
  }
}

/// Why a client's certificate is refused, as X509_V_ERR_….
struct ClientFault: Error {
  let code: Int32
}

/// `ssl_client_purpose`: for what a client's certificate must have been issued.
public enum ClientPurpose: String, Sendable, Hashable, CaseIterable {
  /// Its extendedKeyUsage, if it has one, allows clientAuth.
  case client
  /// Its extendedKeyUsage is not judged. Public CAs issue certificates for servers only, from 2026 on.
  case any

  /// Whether a fault of the walk along a chain is excused: X509_V_ERR_INVALID_PURPOSE of the leaf, and only for its
  /// extendedKeyUsage. A CA of the chain still has to be one for clients, and a key that may not sign proves nothing.
  func excuses(_ fault: Int32, in store: OpaquePointer) -> Bool { self == .any && Self.concernsLeaf(fault, in: store) }

  /// Whether the fault is that the leaf's extendedKeyUsage doesn't allow clientAuth.
  static func concernsLeaf(_ fault: Int32, in store: OpaquePointer) -> Bool {
    guard fault == X509_V_ERR_INVALID_PURPOSE, X509_STORE_CTX_get_error_depth(store) == 0,
      let leaf = X509_STORE_CTX_get_current_cert(store)
    else { return false }
    let signs = UInt32(bitPattern: KU_DIGITAL_SIGNATURE | KU_KEY_AGREEMENT)
    // Without the extension, X509_get_key_usage returns all bits.
    return X509_get_key_usage(leaf) & signs != 0
      && X509_get_extension_flags(leaf) & UInt32(EXFLAG_XKUSAGE) != 0
      && X509_get_extended_key_usage(leaf) & UInt32(XKU_SSL_CLIENT) == 0
  }
}
