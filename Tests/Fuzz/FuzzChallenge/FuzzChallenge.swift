import Bytes
import Crypto
import FuzzSupport
import UpstreamAuth

/// Lines of WWW-Authenticate, or with an odd first byte of Authentication-Info.
///
/// Holds: bounds are kept; what is read is text that a field may carry; an answer to any offer is one field value.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let bytes = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  if start[0] & 1 == 1 {
    if let nonce = AuthenticationInfo.nextNonce(bytes) { require(!nonce.isEmpty && isText(nonce)) }
    return 0
  }
  let lines = bytes.split(separator: 0x0A).map { Array($0) }
  var challenges: [Challenge] = []
  for line in lines { ChallengeParser.parse(line, into: &challenges) }
  require(challenges.count <= 16)
  for challenge in challenges {
    require(!challenge.scheme.isEmpty)
    if case .parameters(let all) = challenge.content {
      require(!all.isEmpty && all.count <= 32 && Set(all.map(\.name)).count == all.count)
      for parameter in all { require(isText(parameter.value)) }
    }
  }
  for offer in Offer.all(in: lines) { answer(offer) }
  return 0
}

let user = UpstreamUser(name: Array("us\"er".utf8), password: SecretBytes(Array("password".utf8)))

func answer(_ offer: Offer) {
  guard case .digest(let digest) = PreparedAnswer(once: offer) else { return }
  var output = ByteBuffer()
  let request = AuthorizedRequest(method: Array("GET".utf8), target: Array("/".utf8)) { $0.of([]) }
  require(digest.append(user, request, to: &output))
  let written = Array(output.readable)
  require(isText(written))
  // It reads as one challenge of as many parameters as a server would see.
  var read: [Challenge] = []
  if written.count <= 16384 {
    require(ChallengeParser.parse(written, into: &read) && read.count == 1 && read[0].scheme == "digest")
  }
}

func isText(_ bytes: [UInt8]) -> Bool { !bytes.contains { $0 < 0x20 && $0 != 9 || $0 == 0x7F } }
