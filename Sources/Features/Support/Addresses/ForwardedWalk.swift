import Traffic
import Transport

/// Walks from the connection's peer to the client, through a list of addresses that trusted proxies wrote (nginx's
/// `ngx_http_get_forwarded_addr`). A pure function of its input, linear in it.
struct ForwardedWalk {
  let trusted: [AccessRule.Source]
  let isRecursive: Bool
  /// The address so far: that of the connection, then the last one that was taken.
  private(set) var address: SocketAddress
  private(set) var hasMoved = false

  init(from peer: SocketAddress, trusted: [AccessRule.Source], isRecursive: Bool) {
    self.address = peer
    self.trusted = trusted
    self.isRecursive = isRecursive
  }

  /// Whether the word of the address so far is taken.
  var isTrusted: Bool { trusted.contains { $0.contains(address) } }

  /// Takes one line of the list, from its right end, and returns whether the line before it counts too.
  mutating func take(_ line: UnsafeRawBufferPointer) -> Bool {
    var end = line.count
    repeat {
      guard isTrusted else { return false }
      while end > 1, Self.isSeparator(line[end - 1]) { end -= 1 }
      var start = end - 1
      // As in nginx, the first byte of a line belongs to an address even if it is a separator.
      while start > 0, !Self.isSeparator(line[start]) { start -= 1 }
      if start > 0 { start += 1 }
      guard start >= 0, end > start,
        let next = SocketAddress(forwarded: UnsafeRawBufferPointer(rebasing: line[start..<end]))
      else {
        return false
      }
      address = next
      hasMoved = true
      guard start > 0 else { break }
      end = start - 1
    } while isRecursive && end > 0
    return isRecursive
  }

  private static func isSeparator(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x2C }
}
