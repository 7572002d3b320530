import Glibc

/// What an owner reads before the stream's own protocol (`listen … proxy_protocol`).
extension ByteStream {
  /// Looks at the bytes that have come, and leaves them in the socket. The next edge comes with more of them.
  public final func peek(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    while !isClosed {
      let count = recv(descriptor, target.baseAddress, target.count, Int32(truncatingIfNeeded: MSG_PEEK))
      if count > 0 {
        peeked = count
        return .bytes(count)
      }
      if count == 0 { return .end }
      if errno == EINTR { continue }
      if errno == EAGAIN || errno == EWOULDBLOCK { return .wouldBlock }
      noteFailure(.socket(SocketError("recv", errno)))
      return .failed
    }
    return .wouldBlock
  }

  /// Whether bytes wait in the socket that nobody has seen: what the owner has peeked at tells nothing new. One system call,
  /// for rare decisions.
  public final var hasUnreadBytes: Bool {
    if isClosed { return false }
    let known = awaitsHeader ? peeked : 0
    return withUnsafeTemporaryAllocation(byteCount: known + 1, alignment: 1) {
      recv(descriptor, $0.baseAddress, known + 1, Int32(truncatingIfNeeded: MSG_PEEK)) > known
    }
  }

  /// Takes the header's bytes, which were peeked at, from the socket, and begins the stream's own protocol with the byte
  /// after them. `isFollowed`: bytes have come after the header, of which no edge tells. Returns false if the header can't
  /// be taken, so that the owner closes the stream.
  public final func endHeader(_ count: Int, isFollowed: Bool) -> Bool {
    guard takeHeader(count) else { return false }
    beginProtocol(isFollowed: isFollowed)
    return true
  }

  /// Takes bytes of the header, which were peeked at, from the socket. Returns false if they can't be taken, so that the
  /// owner closes the stream.
  public final func takeHeader(_ count: Int) -> Bool {
    guard awaitsHeader, !isClosed, count > 0 else { return false }
    let taken = withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) {
      recv(descriptor, $0.baseAddress, count, 0)
    }
    peeked = max(0, peeked - max(0, taken))
    return taken == count
  }

  /// The owner has read its header: begins the stream's own protocol with the next byte. `isFollowed`: that byte may have
  /// come, and no edge tells of it again.
  public final func beginProtocol(isFollowed: Bool) {
    guard awaitsHeader, !isClosed else { return }
    awaitsHeader = false
    opened()
    if isFollowed { inputDidFollow() }
    resumeReading()
  }

  /// Sends bytes before the stream's own protocol, in answer to a header.
  public final func answerHeader(_ bytes: [UInt8]) {
    guard awaitsHeader, !isClosed, !bytes.isEmpty else { return }
    bytes.withUnsafeBytes { transmitLater($0) }
    loop.cork.flush()
  }
}
