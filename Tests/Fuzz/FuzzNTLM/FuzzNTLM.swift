import Bytes
import UpstreamAuth

/// An NTLM message as a server sends it.
///
/// Holds: what is read can be answered, and the answer's fields lie within it, one after the other.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: start, count: count))
  guard let challenge = NTLMChallenge(bytes) else { return 0 }
  let circumstances = NTLMAnswer.Circumstances(
    clientChallenge: [1, 2, 3, 4, 5, 6, 7, 8], time: [0, 0, 0, 0, 0, 0, 0, 0], target: "HTTP/up.test",
    endPoint: [UInt8](repeating: 5, count: 32))
  guard let answer = NTLMAnswer.authenticate(user, challenge, circumstances) else { fatalError("no answer") }
  var end = 0
  for at in stride(from: 12, to: 60, by: 8) {
    let count = Int(answer[at]) | Int(answer[at + 1]) << 8
    let offset = Int(answer[at + 4]) | Int(answer[at + 5]) << 8 | Int(answer[at + 6]) << 16
    guard offset >= max(72, end), offset + count <= answer.count else { fatalError("field at \(at)") }
    end = offset + count
  }
  guard end == answer.count else { fatalError("bytes after the last field") }
  return 0
}

let user = UpstreamUser(name: Array("D\\user".utf8), password: SecretBytes(Array("password".utf8)))
