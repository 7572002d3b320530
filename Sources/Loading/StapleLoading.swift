import Bytes
import Crypto
import Forward
import Glibc
import Observability
import TLS
import Traffic

extension MaterialLoader {
  /// Makes a staple for each certificate whose issuer is known; nil when a file has a fault.
  mutating func staples(
    _ settings: StaplingSettings, _ certificates: [CertifiedKey], issuers: [Certificate]
  ) -> [Staple]? {
    let place: SourceLocation?
    let file: MaterialReference?
    var responder: StatusResponder?
    switch settings {
    case .off: return []
    case .file(let reference): (place, file) = (reference.location, reference)
    case .responder(let named):
      (place, file) = (nil, nil)
      responder = named
    }
    var made: [Staple] = []
    for pair in certificates {
      guard let issuer = (pair.chain + issuers).first(where: { $0.issued(pair.certificate) }) else {
        report(
          Diagnostic(
            .warning, at: place ?? nil,
            "\"ssl_stapling\" ignored for \(pair.certificate.subject): the issuer's certificate is not at hand",
            hint: "put it behind the certificate in its file, or name it with ssl_trusted_certificate"))
        continue
      }
      let question = OCSPRequest(of: pair.certificate, issuedBy: issuer)
      if file == nil, responder == nil, question.responders.isEmpty {
        let names = pair.certificate.responderAddresses.isEmpty ? "no OCSP responder" : "no OCSP responder with http"
        report(
          Diagnostic(
            .warning, at: nil,
            "\"ssl_stapling\" ignored for \(pair.certificate.subject): it names \(names)",
            hint: "ssl_stapling_responder http://…; or ssl_stapling_file FILE;"))
        continue
      }
      made.append(staple(question, responder, isFromFile: file != nil))
    }
    if let file, !made.isEmpty, !take(file, into: made) { return nil }
    return made
  }

  /// Returns false when the file can't be read. An unusable response, such as an expired one, is a warning and is not
  /// sent.
  private mutating func take(_ file: MaterialReference, into staples: [Staple]) -> Bool {
    let read = unit(TLSUnit.Response(file: file), .response, file) { () throws(MaterialError) in
      try file.read(expecting: .response)
    }
    guard let bytes = read?.withUnsafeBytes({ Array($0) }) else { return false }
    var faults: [OCSPError] = []
    for staple in staples {
      do throws(OCSPError) {
        let answer = try staple.question.judge(bytes, now: Int64(time(nil)))
        guard answer.status == .good else {
          faults.append(OCSPError("it says that the certificate is \(answer.status)"))
          continue
        }
        staple.put(bytes, validUntil: answer.validUntil)
        return true
      } catch {
        faults.append(error)
      }
    }
    for staple in staples { staple.fail("\"\(file)\" is not usable: \(faults.first?.description ?? "")") }
    report(
      Diagnostic(
        .warning, at: file.location, "\"\(file)\" is not stapled: \(faults.first?.description ?? "")",
        hint: "a response for this server's certificate, of now: openssl ocsp -respout"))
    return true
  }
}
