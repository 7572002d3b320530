import ACME
import Crypto
import FuzzSupport
import JSON

/// What an ACME server says: answers one after the other, each until a byte 0xFF. The first byte of an answer chooses its
/// status, the next one what its fields are.
///
/// Holds of an order: it ends, asks no other server than its own, and answers challenges of no other name than its own. Holds
/// of JSON: what is read is read the same again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  _ = try? JSONValue(bytes)
  let answers = bytes.split(separator: 0xFF, maxSplits: 64, omittingEmptySubsequences: false).map(Array.init)
  if let request { order(request, answers) }
  for answer in answers { _ = try? RenewalWindow(response(answer)) }
  return 0
}

private let request: IssuanceRequest? = {
  guard let directory = ACMEURL("https://ca.test/dir"), let name = ACMEIdentifier("a.test"),
    let key = try? PrivateKey.generate(), let webKey = try? JSONWebKey(key)
  else { return nil }
  var request = IssuanceRequest(
    directory: directory, names: [name], method: .http01, accountKey: webKey, certificateKey: key)
  request.acceptsTerms = true
  request.replaces = "a.b"
  request.profile = ("p", false)
  request.preferredChain = "CA"
  return request
}()

private func response(_ bytes: [UInt8]) -> ACMEResponse {
  let statuses = [200, 201, 400, 429, 500, 302]
  var response = ACMEResponse(status: statuses[Int(bytes.first ?? 0) % statuses.count], body: Array(bytes.dropFirst(2)))
  let fields = bytes.dropFirst().first ?? 0
  if fields & 1 == 0 { response.location = "https://ca.test/1" }
  if fields & 2 == 2 { response.retryAfter = Int64(fields) - 100 }
  if fields & 4 == 4 { response.alternates = ["https://ca.test/2", "https://evil.test/"] }
  return response
}

private func order(_ request: IssuanceRequest, _ answers: [[UInt8]]) {
  var issuance = Issuance(request)
  var event = Issuance.Event.begin
  var at = 0
  for _ in 0..<10_000 {
    switch issuance.take(event, at: 1_700_000_000) {
    case .get(let url), .post(let url, _, _):
      require(url.hasOrigin(of: request.directory))
      event = .response(response(at < answers.count ? answers[at] : answers.last ?? []))
      at += 1
    case .publish(let published):
      require(published.allSatisfy { request.names.contains($0.identifier) && !$0.token.contains("/") })
      event = .published
    case .wait(let seconds):
      require(seconds > 0)
      event = .waited
    case .done(let issued): return require(request.certificateKey.matches(issued.pair.certificate))
    case .failed(let error): return require(!error.description.unicodeScalars.contains { $0.value < 0x20 })
    }
  }
  require(false)
}
