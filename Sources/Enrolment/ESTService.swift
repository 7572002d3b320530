import Bytes
package import Crypto
import Glibc
import Observability

/// Enrolment over Secure Transport (RFC 7030): /cacerts, /simpleenroll and /simplereenroll.
///
/// The authority decides which names a certificate has, never the request: the user's, and one device's. A request that
/// asks for other names is refused, so that no client believes to have got them.
extension EnrolmentService {
  /// The device of a request that names none.
  package static let standardDevice = "est"

  /// Answers /cacerts: the authority's certificate and those between it and the root, with the root.
  package func authorities() -> EnrolmentOutcome {
    do throws(AuthorityError) {
      let file = MaterialReference(path: try AuthorityStore(folder(), state).folder.file("ca.crt"))
      let certificates: [Certificate]
      do throws(MaterialError) { certificates = try Certificate.loadAll(file) } catch {
        throw AuthorityError(error.message, hint: error.hint)
      }
      return .enrolled(try Self.bag(certificates), "the authority's certificates were fetched")
    } catch {
      return EnrolmentOutcome(error)
    }
  }

  /// Answers /simpleenroll, which needs the user's password or a token.
  package func enroll(
    _ credentials: ShownCredentials, from address: String, body: UnsafeRawBufferPointer,
    at now: Int64 = Int64(time(nil)), _ tick: Int64 = MonotonicClock.seconds
  ) -> EnrolmentOutcome {
    authenticated(credentials, from: address, at: now, tick) { (user, store) throws(AuthorityError) in
      let name: CommonName
      do throws(AuthorityError) { name = try CommonName(bytes: user.name) } catch { return .refused(error.message) }
      return try issue(body, to: name, onlyFor: user.device, store, at: now)
    }
  }

  /// Answers /simplereenroll, which needs a certificate of this authority. `shown`: the client's, whose chain verified.
  package func reenroll(
    _ shown: Certificate, body: UnsafeRawBufferPointer, at now: Int64 = Int64(time(nil))
  ) -> EnrolmentOutcome {
    do throws(AuthorityError) {
      let store = try AuthorityStore(folder(), state)
      guard let entry = try store.register.entry(shown.serial), entry.state == .valid, entry.notAfter > now,
        try store.certificate(shown.serial) == shown
      else { return .refused("certificate \(shown.serial) is no valid one of this authority") }
      let devices = shown.subjectAltNames.all.map(\.description)
      guard let uri = devices.first, devices.count == 1, uri.hasPrefix(Self.prefix),
        let bytes = shown.subject.commonName.sole
      else { return .refused("certificate \(shown.serial) is not one that an enrolment issued") }
      // Who was removed from the file has no password any more, and so no certificate in its place.
      guard try accounts().contains(bytes) else {
        return .refused("the user of certificate \(shown.serial) is not in the file of users")
      }
      let device = String(uri.dropFirst(Self.prefix.count))
      return try issue(body, to: try CommonName(bytes: bytes), onlyFor: device, store, at: now)
    } catch {
      return EnrolmentOutcome(error)
    }
  }

  // MARK: One certificate

  /// `onlyFor`: the only device that the credentials are for; nil for any.
  private func issue(
    _ body: UnsafeRawBufferPointer, to name: CommonName, onlyFor only: String?, _ store: AuthorityStore, at now: Int64
  ) throws(AuthorityError) -> EnrolmentOutcome {
    let request: SigningRequest
    do throws(ESTRequest.ParseError) { request = try ESTRequest(parsing: body).request } catch {
      return .malformed("the request is malformed: \(error)")
    }
    let device: String
    switch Self.device(of: request, for: name) {
    case .success(let named): device = named ?? only ?? Self.standardDevice
    case .failure(let refusal): return .refused(refusal.words)
    }
    guard only == nil || device == only else {
      return .refused("the request is for device \"\(device)\", and the client is \"\(only ?? "")\"")
    }
    let uri = Self.prefix + device
    let wanted: RequestedCertificate
    do throws(AuthorityError) {
      wanted = try RequestedCertificate(request, .client, name: name, names: [.uri(uri)], lifetime: settings.lifetime)
    } catch { return .malformed("the request can't be signed: \(error.message)") }
    let held = try store.register.held(by: name, at: now)
    if let refusal = refusal(of: uri, device, name, held, at: now) { return refusal }
    let authority = try LocalAuthority(store, passwords: passwords())
    let issued = try authority.sign(wanted.profile, for: wanted.key, at: now)
    let bag = try Self.bag([issued])
    var refusal: EnrolmentOutcome?
    let isRegistered = try store.register.register(
      issued, signer: authority.signer, token: nil
    ) { (holders) throws(AuthorityError) in
      refusal = self.refusal(of: uri, device, name, try holders.held(by: name, at: now), at: now)
      return refusal == nil
    }
    guard isRegistered else { return refusal ?? .broken("the certificate was not registered") }
    return .enrolled(
      bag,
      "certificate \(issued.serial) issued to user \"\(name)\", device \"\(device)\", for its own key, until "
        + "\(AuthorityTime.rfc3339(issued.notAfter))")
  }

  private struct NameRefusal: Error { let words: String }

  /// Returns the device that a request names; nil if it names none. Fails for a request with names of others.
  private static func device(
    of request: SigningRequest, for name: CommonName
  ) -> Result<String?, NameRefusal> {
    switch request.commonName {
    case .absent: break
    case .one(let bytes) where bytes == Array(name.text.utf8): break
    default:
      return .failure(NameRefusal(words: "the request's subject is \(request.subject), and the client is \"\(name)\""))
    }
    let asked = request.alternativeNames
    guard !asked.isMalformed, asked.others == 0, asked.names.count <= 1 else {
      return .failure(NameRefusal(words: "the request asks for other alternative names than \(prefix)NAME"))
    }
    guard let only = asked.names.first else { return .success(nil) }
    let text = only.description
    let device = text.dropFirst(prefix.count)
    guard only.kind == .uri, text.hasPrefix(prefix), EnrolmentRequest.isDevice(Array(device.utf8)) else {
      return .failure(NameRefusal(words: "the request asks for the name \(text); expected \(prefix)NAME"))
    }
    return .success(String(device))
  }

  /// Base64 in lines of 64 characters.
  private static func bag(_ certificates: [Certificate]) throws(AuthorityError) -> SecretBytes {
    let der: [UInt8]
    do throws(OpenSSLError) { der = try CertificateBag.der(certificates) } catch {
      throw AuthorityError("the certificates could not be encoded", error)
    }
    var text: [UInt8] = []
    for (index, byte) in Base64.encode(der).utf8.enumerated() {
      if index > 0, index % 64 == 0 { text.append(0x0A) }
      text.append(byte)
    }
    return SecretBytes(text + [0x0A])
  }
}
