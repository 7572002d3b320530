import CLinux
import Glibc
import Synchronization

package enum WireError: Error, Hashable {
  case system(String, Int32)
  /// The peer sent nothing for the time allowed.
  case silent
  /// The peer closed in the middle of what was being read.
  case truncated(got: Int)
  case malformed(String)
}

/// One end of a connection, blocking, with a time limit on each read: for threads of tests, never for Swift's pool.
package final class Wire: Sendable {
  private let descriptor: Int32
  private let pending = Mutex<[UInt8]>([])
  private let transcript: Mutex<[UInt8]?>
  private let isOpen = Mutex(true)
  private let wasReset = Mutex(false)

  /// Takes over the descriptor.
  init(owning descriptor: Int32, records: Bool = false) {
    self.descriptor = descriptor
    transcript = Mutex(records ? [] : nil)
    var bound = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &bound, socklen_t(MemoryLayout<timeval>.size))
    var on: Int32 = 1
    setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
  }

  deinit { close() }

  package static func dial(port: UInt16) throws -> Wire {
    try dial(AF_INET) { descriptor in LoopbackAddress.withIPv4(port: port) { connect(descriptor, $0, $1) } }
  }

  package static func dial(unixPath: String) throws -> Wire {
    try dial(AF_UNIX) { descriptor in LoopbackAddress.withUnix(path: unixPath) { connect(descriptor, $0, $1) } }
  }

  private static func dial(_ family: Int32, _ connect: (Int32) -> Int32) throws -> Wire {
    let descriptor = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw WireError.system("socket", errno) }
    guard connect(descriptor) == 0 else {
      let code = errno
      Glibc.close(descriptor)
      throw WireError.system("connect", code)
    }
    return Wire(owning: descriptor)
  }

  /// The bytes read so far, where recorded.
  package var received: [UInt8] { transcript.withLock { $0 } ?? [] }

  package func write(_ bytes: [UInt8]) throws {
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes {
        send(descriptor, $0.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(truncatingIfNeeded: MSG_NOSIGNAL))
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw WireError.system("send", errno)
      }
      sent += count
    }
  }

  /// Writes these bytes again and again until the peer takes none for a second, or has taken `limit`. Returns how many it
  /// took.
  package func writeUntilFull(_ bytes: [UInt8], limit: Int) throws -> Int {
    var sent = 0
    while sent < limit {
      let start = sent % bytes.count
      let count = bytes.withUnsafeBytes {
        send(
          descriptor, $0.baseAddress.map { $0 + start }, min(bytes.count - start, limit - sent),
          Int32(truncatingIfNeeded: MSG_NOSIGNAL) | Int32(truncatingIfNeeded: MSG_DONTWAIT))
      }
      if count > 0 {
        sent += count
        continue
      }
      guard errno == EAGAIN || errno == EINTR else { throw WireError.system("send", errno) }
      var watched = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
      if poll(&watched, 1, 1000) == 0 { break }
    }
    return sent
  }

  package func write(_ text: String) throws { try write(Array(text.utf8)) }

  /// Whether bytes, or the peer's end, have come that nobody has read. Does not wait.
  package var hasInput: Bool {
    if !pending.withLock(\.isEmpty) { return true }
    var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&watched, 1, 0) > 0
  }

  /// What has come, waiting for it; empty at the end of the stream.
  package func readSome(_ limit: Int = 65_536) throws -> [UInt8] {
    let kept = pending.withLock { pending in
      let first = Array(pending.prefix(limit))
      pending.removeFirst(first.count)
      return first
    }
    return kept.isEmpty ? try receive(limit) : kept
  }

  private func receive(_ limit: Int) throws -> [UInt8] {
    while true {
      var failure: Int32 = 0
      let bytes = [UInt8](unsafeUninitializedCapacity: limit) { room, count in
        let got = recv(descriptor, room.baseAddress, limit, 0)
        failure = got < 0 ? errno : 0
        count = max(got, 0)
      }
      if failure == EINTR { continue }
      if failure == EAGAIN { throw WireError.silent }
      // A reset ends the stream as a close does; `isReset` tells them apart.
      if failure == ECONNRESET {
        wasReset.withLock { $0 = true }
        return []
      }
      if failure != 0 { throw WireError.system("recv", failure) }
      transcript.withLock { $0?.append(contentsOf: bytes) }
      return bytes
    }
  }

  package func read(exactly count: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count {
      let some = try readSome(min(count - bytes.count, 262_144))
      if some.isEmpty { throw WireError.truncated(got: bytes.count) }
      bytes += some
    }
    return bytes
  }

  package func readToEnd() throws -> [UInt8] {
    var bytes: [UInt8] = []
    while true {
      let some = try readSome()
      if some.isEmpty { return bytes }
      bytes += some
    }
  }

  /// Up to and with the delimiter; nil when the stream ends before its first byte.
  package func read(through delimiter: String) throws -> [UInt8]? {
    let delimiter = Array(delimiter.utf8)
    var bytes: [UInt8] = []
    while true {
      let some = try readSome()
      if some.isEmpty {
        if bytes.isEmpty { return nil }
        throw WireError.truncated(got: bytes.count)
      }
      let old = bytes.count
      bytes += some
      var index = max(0, old - delimiter.count + 1)
      while index + delimiter.count <= bytes.count {
        if bytes[index..<index + delimiter.count].elementsEqual(delimiter) {
          let rest = Array(bytes[(index + delimiter.count)...])
          pending.withLock { $0 = rest + $0 }
          return Array(bytes[..<(index + delimiter.count)])
        }
        index += 1
      }
    }
  }

  /// Whether the peer has closed, which must come in time; false when it says something instead.
  package func isClosedByPeer() throws -> Bool { try readSome(1).isEmpty }

  /// Whether the stream's end, once read, was a TCP reset.
  package var isReset: Bool { wasReset.withLock { $0 } }

  /// Waits until the peer resets the connection, without reading what has come; false when it does not in time.
  package func isResetByPeer() -> Bool {
    var watched = pollfd(fd: descriptor, events: 0, revents: 0)
    return poll(&watched, 1, 20_000) == 1 && watched.revents & Int16(POLLERR) != 0
  }

  package func finishWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

  package func close() {
    isOpen.withLock { open in
      if open { Glibc.close(descriptor) }
      open = false
    }
  }

  /// Ends both directions without giving the descriptor back: wakes a thread that reads here.
  package func interrupt() {
    isOpen.withLock { if $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
  }

  /// Closes with a TCP reset.
  package func reset() {
    var now = linger(l_onoff: 1, l_linger: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
    close()
  }
}
