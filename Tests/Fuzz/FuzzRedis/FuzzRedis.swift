import Features
import Forward
import FuzzSupport
import Redis
import Traffic

/// Replies of a store, in pieces: the first byte is the size of a piece.
///
/// Holds: replies are the same in any pieces, or fail in any; a session gives as many replies as were expected at most, and
/// nothing after it is lost. What an answer says is within what was asked.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  guard let size = bytes.first, size > 0 else { return 0 }
  let body = Array(bytes.dropFirst())
  let (pieces, whole) = (read(body, size: Int(size)), read(body, size: max(1, body.count)))
  require(pieces.replies == whole.replies && pieces.fails == whole.fails)

  for reply in whole.replies { judge(reply) }

  var session = RedisSession(RedisLogin(user: nil, password: nil, database: 0), scripts: ["return 1"])
  body.withUnsafeBytes { session.take($0) }
  var (replies, isOver) = (0, false)
  while let event = session.next() {
    require(!isOver)
    switch event {
    case .ready: session.expect(2)
    case .reply: replies += 1
    case .lost: isOver = true
    }
  }
  require(replies <= 2)
  return 0
}

private func judge(_ reply: RedisReply) {
  let bursts = [0, 1000, 20_000]
  switch RateAnswer(reply, bursts: bursts) {
  case .allowed(let excesses): require(zip(excesses, bursts).allSatisfy { 0 <= $0 && $0 <= $1 } && excesses.count == 3)
  case .refused(let index, let excess): require(bursts.indices.contains(index) && excess > bursts[index])
  case nil: break
  }
  if case .tooMany(let wait) = AttemptAnswer(reply) { require(wait > 0) }
  // One question's admission is no other's refusal.
  if TakeAnswer(reply) == .counted { require(NoveltyAnswer(reply) == nil) }
}

private func read(_ bytes: [UInt8], size: Int) -> (replies: [RedisReply], fails: Bool) {
  var reader = RedisReader()
  var replies: [RedisReply] = []
  var rest = bytes[...]
  while !rest.isEmpty {
    Array(rest.prefix(size)).withUnsafeBytes { reader.append($0) }
    rest = rest.dropFirst(size)
    do {
      while let reply = try reader.next() { replies.append(reply) }
    } catch {
      return (replies, true)
    }
  }
  return (replies, false)
}
