public import Bytes

/// Filters a client's Connection and Upgrade values when `proxy_set_header` forwards them to an upstream.
///
/// Each function shortens the list at the end of a buffer in place and without an allocation, because WebSocket
/// configurations run it on every request. A list from which the function removes no element stays as written.
public enum HopByHopValue {
  /// Keeps only `close`, `keep-alive`, `upgrade` and `TE`. Any other element names a field that the next hop would
  /// remove (RFC 9110 §7.6.1); a client could so remove the fields that tell the upstream the client's identity.
  public static func keepConnectionOptions(in buffer: inout ByteBuffer, from start: Int) {
    keep(in: &buffer, from: start) { element in
      switch element.count {
      case 2: element.equalsIgnoringCase("te")
      case 5: element.equalsIgnoringCase("close")
      case 7: element.equalsIgnoringCase("upgrade")
      case 10: element.equalsIgnoringCase("keep-alive")
      default: false
      }
    }
  }

  /// Removes the protocols that would let requests bypass every check: HTTP in any version, and TLS (RFC 2817).
  public static func removeTunnellingProtocols(in buffer: inout ByteBuffer, from start: Int) {
    keep(in: &buffer, from: start) { element in
      let name = UnsafeRawBufferPointer(rebasing: element.prefix { $0 != 0x2F })
      return switch name.count {
      case 0: false
      case 2: !name.equalsIgnoringCase("h2")
      case 3: !name.equalsIgnoringCase("h2c") && !name.equalsIgnoringCase("tls")
      case 4: !name.equalsIgnoringCase("http")
      default: true
      }
    }
  }

  /// The elements of a list in lower case, without the empty ones: protocol names compare without case (RFC 9110 §7.8).
  public static func elements(of value: UnsafeRawBufferPointer) -> [[UInt8]] {
    guard let base = value.baseAddress else { return [] }
    var found: [[UInt8]] = []
    var elements = ListElements(base, ByteRange(start: 0, count: value.count))
    while let element = elements.next() {
      if !element.isEmpty { found.append(at(base, element).map { ASCII.lower($0) }) }
    }
    return found
  }

  private static func keep(
    in buffer: inout ByteBuffer, from start: Int, where isKept: (UnsafeRawBufferPointer) -> Bool
  ) {
    guard start >= 0, start < buffer.count, let base = buffer.mutableReadable.baseAddress else { return }
    let list = ByteRange(start: start, count: buffer.count - start)
    guard hasOther(base, list, isKept) else { return }
    var end = start
    var elements = ListElements(base, list)
    while let element = elements.next() {
      guard !element.isEmpty, isKept(at(base, element)) else { continue }
      if end > start {
        base.storeBytes(of: 0x2C, toByteOffset: end, as: UInt8.self)
        end += 1
      }
      // The copy only moves bytes towards the front: the kept elements are no longer than the elements already read.
      (base + end).copyMemory(from: base + Int(element.start), byteCount: Int(element.count))
      end += Int(element.count)
    }
    buffer.truncate(to: end)
  }

  private static func hasOther(
    _ base: UnsafeRawPointer, _ list: ByteRange, _ isKept: (UnsafeRawBufferPointer) -> Bool
  ) -> Bool {
    var elements = ListElements(base, list)
    while let element = elements.next() { if !isKept(at(base, element)) { return true } }
    return false
  }
}
