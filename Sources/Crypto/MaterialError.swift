public import Observability

/// Why a file, credential or pin that a configuration or command line names can't be used.
///
/// The caller never falls back to another trust source.
public struct MaterialError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The faulty argument, as the user wrote it.
  public let culprit: String
  /// Where a configuration names it; nil on a command line.
  public let location: SourceLocation?
  /// A sentence that names the culprit, its fault and what was expected.
  public let message: String
  /// What to do.
  public let hint: String?

  public init(culprit: String, location: SourceLocation?, message: String, hint: String? = nil) {
    self.culprit = culprit
    self.location = location
    self.message = message
    self.hint = hint
  }

  public var diagnostic: Diagnostic { Diagnostic(.error, at: location, message, hint: hint) }
  public var description: String { diagnostic.description }
}

extension MaterialError {
  /// Describes a fault of a file with a valid reference.
  init(_ reference: MaterialReference, _ fault: String, hint: String? = nil) {
    self.init(
      culprit: reference.description, location: reference.location, message: "\(reference.shown): \(fault)", hint: hint)
  }

  /// Describes a fault of a file's content.
  init(_ reference: MaterialReference, expecting kind: MaterialKind, _ error: CryptoError) {
    switch error {
    case .passwordRequired:
      self.init(
        reference, "\(kind.noun) is encrypted, and no pass phrase was given",
        hint: reference.location == nil
          ? "name a file with the pass phrase: --password-file FILE"
          : "name a file with the pass phrase: ssl_password_file, or proxy_ssl_password_file towards an upstream")
    case .wrongPassword:
      self.init(
        reference, "\(kind.noun) is encrypted, and none of the given pass phrases opens it",
        hint: "the password file has one pass phrase a line, tried in order")
    case .unsupported(let reason):
      self.init(
        reference, "\(kind.noun) is encrypted in a way that this OpenSSL does not support (\(reason))",
        hint: reason == PKCS12.newMAC
          ? "export it anew without PBMAC1: openssl pkcs12 -export without -pbmac1_pbkdf2, keytool with -J-Dkeystore.pkcs12.macAlgorithm=HmacPBESHA256"
          : "old PKCS#12 files need OpenSSL's legacy provider (legacy.so); or export anew with AES-256")
    case .missing:
      self.init(reference, "\(error)", hint: "use a key of ECDSA, RSA or Ed25519, or a system with the newer OpenSSL")
    case .token(let fault, let hint): self.init(reference, fault, hint: hint)
    case .absent(let what): self.init(reference, "\(what); expected \(kind.expectation)")
    case .malformed(let reason): self.init(reference, "\(reason); expected \(kind.expectation)")
    }
  }
}

/// The purpose for which a file is read. The error says what was expected. A feature can have purposes of its own.
public struct MaterialKind: Sendable, Hashable {
  /// How messages name the file.
  package let noun: String
  /// What the file must contain.
  let expectation: String

  public init(_ noun: String, expecting expectation: String) {
    self.noun = noun
    self.expectation = expectation
  }

  public static let certificate = MaterialKind(
    "the certificate's file", expecting: "a certificate as PEM, DER or PKCS#12")
  public static let privateKey = MaterialKind("the private key", expecting: "a private key as PEM, DER or PKCS#12")
  public static let anchors = MaterialKind("the CA file", expecting: "CA certificates as PEM, DER or PKCS#12")
  public static let passwords = MaterialKind("the password file", expecting: "pass phrases, one a line")
  public static let pin = MaterialKind(
    "the pin file", expecting: "a certificate or public key as PEM or DER, or a PKCS#12")
  public static let revocation = MaterialKind(
    "the revocation list", expecting: "whole revocation lists (CRLs) as PEM, or one as DER")
  public static let ticketKey = MaterialKind("the ticket key", expecting: "48 or 80 random bytes (openssl rand 80)")
  public static let response = MaterialKind("the OCSP response", expecting: "an OCSP response as DER")
  public static let dhParameters = MaterialKind(
    "the DH parameters", expecting: "DH parameters as PEM, 2048 bits or more (openssl dhparam 2048)")
  public static let cipherKey = MaterialKind("a key of this cipher", expecting: "a key as hexadecimal digits or base64")
  public static let macKey = MaterialKind("a MAC key", expecting: "a key as hexadecimal digits or base64")
  public static let users = MaterialKind("the user file", expecting: "lines SELECTOR USER:PASSWORD")
  public static let accounts = MaterialKind(
    "the file of users", expecting: "users and hashes of passwords, USER:HASH a line (htpasswd, openssl passwd)")
  public static let signingKey = MaterialKind(
    "the key of signatures", expecting: "an unencrypted private key as PEM or DER")
  public static let verifyingKey = MaterialKind("the key of signatures", expecting: "a public key as PEM or DER")
  public static let request = MaterialKind(
    "the signing request", expecting: "one certificate signing request (CSR) as PEM or DER")
  public static let inspected = MaterialKind(
    "the file", expecting: "a certificate, signing request, revocation list, key or PKCS#12, as PEM or DER")
}
