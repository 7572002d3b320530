package import ACME
import Bytes
import Forward
import HTTP
import Synchronization
package import Traffic

/// The answers to http-01 challenges of open orders (RFC 8555 §8.3). All workers share one object, which outlives
/// generations.
package final class ChallengeTokens: SharedPart {
  private struct Entry: Sendable {
    var owner: UInt64
    /// The only Host that is answered: lower case, an IPv6 address without brackets.
    var host: [UInt8]
    var text: [UInt8]
  }

  private let entries = Mutex<[[UInt8]: Entry]>([:])
  private let entry: EntryState

  package init(_ shared: SharedState) { entry = shared.entry }

  /// Adds answers. `owner`: who removes them.
  package func add(_ answers: [ChallengeAnswer], owner: UInt64) {
    entries.withLock { entries in
      let wasEmpty = entries.isEmpty
      for answer in answers {
        entries[Array(answer.token.utf8)] = Entry(
          owner: owner, host: Array(answer.identifier.description.utf8), text: Array(answer.keyAuthorization.utf8))
      }
      if wasEmpty, !entries.isEmpty { entry.begin() }
    }
  }

  /// Removes what this owner has added.
  package func remove(owner: UInt64) {
    entries.withLock { entries in
      let wasEmpty = entries.isEmpty
      entries = entries.filter { $0.value.owner != owner }
      if !wasEmpty, entries.isEmpty { entry.end() }
    }
  }

  enum Answer: Equatable {
    case text([UInt8])
    /// The request is about an open order, and not its answer: another name's token, or none.
    case unknown
  }

  /// `host`: in any case, without a port, an IPv6 address in brackets. nil: nothing here is of this request.
  func answer(path: UnsafeRawBufferPointer, host: UnsafeRawBufferPointer) -> Answer? {
    let prefix: StaticString = "/.well-known/acme-challenge/"
    let length = prefix.utf8CodeUnitCount
    guard path.count >= length, UnsafeRawBufferPointer(rebasing: path[..<length]).equals(prefix) else { return nil }
    let token = Array(path[length...])
    var name = host.map { ASCII.lower($0) }
    if name.first == UInt8(ascii: "["), name.last == UInt8(ascii: "]") { name = Array(name.dropFirst().dropLast()) }
    if name.last == UInt8(ascii: ".") { name.removeLast() }
    return entries.withLock { entries in
      if let entry = entries[token] { return entry.host == name ? .text(entry.text) : .unknown }
      return entries.values.contains { $0.host == name } ? .unknown : nil
    }
  }
}

extension ChallengeTokens: EntryPart {
  /// Responds to a request that is about a challenge, before any server block's own rules. An http-01 challenge comes in
  /// clear.
  package func responds(to exchange: Exchange, _ session: ClientSession) -> Bool {
    let head = exchange.head
    guard session.tls == nil, head.method == .get || head.method == .head else { return false }
    let bytes = head.bytes.readable
    guard let answer = answer(path: bytes[head.target.path], host: bytes[head.host]) else { return false }
    exchange.assume(session.firstServer)
    switch answer {
    case .unknown: exchange.fail(ErrorResponse(404))
    case .text(let text):
      text.withUnsafeBytes { exchange.answer(status: 200, type: "application/octet-stream", body: $0) }
    }
    return true
  }
}
