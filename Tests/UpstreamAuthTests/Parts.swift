import Bytes
import Crypto

@testable import UpstreamAuth

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

func hex(_ text: String) throws -> [UInt8] { try Hex.decode(text.filter { !$0.isWhitespace }) }

func user(_ name: String, _ password: String) -> UpstreamUser {
  UpstreamUser(name: bytes(name), password: SecretBytes(bytes(password)), place: "users:1")
}

func challenges(_ lines: String...) -> [Challenge] {
  var all: [Challenge] = []
  for line in lines { ChallengeParser.parse(bytes(line), into: &all) }
  return all
}

func offers(_ lines: String...) -> [Offer] { Offer.all(in: lines.map(bytes)) }

func digest(_ line: String) throws -> DigestChallenge {
  guard case .digest(let challenge)? = offers(line).first else { throw NoDigest() }
  return challenge
}

struct NoDigest: Error {}

/// The value of Authorization; nil where none can be made.
func answer(
  _ challenge: DigestChallenge, _ user: UpstreamUser, method: String = "GET", target: String, body: String? = nil,
  count: UInt32 = 1, clientNonce: String, sessionNonce: String? = nil
) -> String? {
  var output = ByteBuffer()
  let answer = DigestAnswer(
    challenge: challenge, count: count, clientNonce: bytes(clientNonce),
    sessionNonce: sessionNonce.map(bytes) ?? challenge.nonce)
  let request = AuthorizedRequest(method: bytes(method), target: bytes(target)) { hash in
    body.flatMap { hash.of(bytes($0)) }
  }
  guard answer.append(user, request, to: &output) else { return nil }
  return String(decoding: Array(output.readable), as: UTF8.self)
}

/// HMAC-MD5.
func hmac(_ key: [UInt8], _ message: [UInt8]) -> [UInt8]? { AuthenticationDigest.md5.hmac(key: key, message) }
