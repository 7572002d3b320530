import CSystemd
import Glibc

/// Listening sockets that outlive the process: in systemd's file descriptor store (FileDescriptorStoreMax=), and in the
/// process that a new binary replaces.
///
/// A socket in the store stays open while the service restarts, so the kernel queues new connections instead of refusing
/// them, and the queue isn't lost. The name only tells such a socket from those of a socket unit, and lets systemd remove
/// it. Which address a socket has, the kernel says.
package enum KeptSocket {
  private static let prefix = "sallyport.listen."
  /// systemd refuses names that are longer than 255 characters.
  private static let longestAddress = 200

  /// Returns the name of the sockets of an address: visible ASCII without `:`, as systemd wants it.
  package static func name(of address: String) -> String {
    var text = ""
    for byte in address.utf8 {
      let isPlain = byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: ":") && byte != UInt8(ascii: "%")
      if isPlain {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += byte < 16 ? "%0" : "%"
        text += String(byte, radix: 16, uppercase: true)
      }
    }
    guard text.utf8.count > longestAddress else { return prefix + text }
    // FNV-1a: two long paths must not share a name.
    let hash = address.utf8.reduce(UInt64(0xcbf2_9ce4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    return prefix + text.prefix(longestAddress) + "-" + String(hash, radix: 16)
  }

  /// Whether sallyport gave this name, so that the socket isn't of a socket unit.
  package static func isName(_ name: String) -> Bool { name.hasPrefix(prefix) }

  /// Whether systemd keeps sockets for this service. systemd 254 sets FDSTORE; for older versions, the unit sets it.
  package static var isStoreOpen: Bool {
    guard let limit = getenv("FDSTORE"), getenv("NOTIFY_SOCKET") != nil else { return false }
    return (Int(String(cString: limit)) ?? 0) > 0
  }

  /// Gives systemd the sockets of one address. systemd ignores those that it has.
  @discardableResult
  package static func store(_ descriptors: [Int32], as name: String) -> Notification.Outcome {
    var outcome = Notification.Outcome.nobodyListens
    // The kernel passes at most 253 descriptors in one message.
    for start in stride(from: 0, to: descriptors.count, by: 200) {
      let some = Array(descriptors[start..<min(descriptors.count, start + 200)])
      // Without FDPOLL=0, systemd would watch them, and every new connection would wake it.
      let text = "FDSTORE=1\nFDNAME=\(name)\nFDPOLL=0"
      let result = sd_pid_notify_with_fds(0, 0, text, some, UInt32(clamping: some.count))
      outcome = result > 0 ? .sent : result == 0 ? .nobodyListens : .failed(-result)
      if outcome != .sent { break }
    }
    return outcome
  }
}
