import Crypto
import FuzzSupport

/// What a peer, a responder, or who signs lists, hands us as DER. A first byte of 2: an OCSP response; another even one: a
/// certificate; an odd one: a revocation list.
///
/// Holds: whatever OpenSSL takes for one, every fact of it can be told, and no text that is well-formed holds a control
/// character.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let der = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
  switch start[0] {
  case 2: judgeResponse(Array(der))
  case let kind where kind & 1 == 0: tellCertificate(der)
  default: tellList(der)
  }
  return 0
}

/// Nobody has its key: whatever a response says, it says nothing.
private let stranger = try? CertificateBuilder(commonName: "x", .authority(pathLength: nil))
  .selfSigned(key: .generate()).certificate

private func judgeResponse(_ response: [UInt8]) {
  guard let stranger else { fatalError("no certificate") }
  let answer = try? OCSPRequest(of: stranger, issuedBy: stranger).judge(response, now: 1_800_000_000)
  require(answer == nil)
  require(OpenSSLError.drain().codes.isEmpty)
}

private func tellCertificate(_ der: UnsafeRawBufferPointer) {
  guard let certificate = try? Certificate(der: der) else { return }
  require(certificate.sha256.count == 32 && certificate.spkiSHA256.count == 32)
  require(!certificate.serial.isEmpty && !certificate.pem.isEmpty)
  _ = (certificate.notAfter, certificate.notAfterText, certificate.notBeforeText, certificate.isSelfIssued)
  for name in [certificate.subject, certificate.issuer] {
    _ = (name.rfc2253, name.legacy, name.commonName, name.organizations, name.organizationalUnits)
  }
  let names = certificate.subjectAltNames
  for name in names.all {
    let text = name.description
    require(!text.utf8.contains { $0 < 0x20 || $0 == 0x7F })
    if name.isWellFormed { require(name.kind == .ip || !name.bytes.contains { $0 < 0x20 || $0 == 0x7F }) }
  }
  _ = OCSPRequest(of: certificate, issuedBy: certificate).responders
}

private func tellList(_ der: UnsafeRawBufferPointer) {
  guard let list = try? RevocationList(der: der) else { return }
  require(list.sha256.count == 32 && list.count >= 0)
  _ = (list.issuer, list.nextUpdateText, list.age(.standard, at: 0), list.isExpired(at: 0), list.number?.description)
  for entry in list.entries { require(!entry.serial.isEmpty) }
  _ = RevocationList.taking([list], after: [list], among: [], now: 1_800_000_000)
  _ = RevocationList.deciding([list, list], among: [], now: 1_800_000_000)
}
