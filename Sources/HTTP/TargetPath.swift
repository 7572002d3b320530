public import Bytes

/// Converts the path of a request target to nginx's `$uri`, by which locations and rules match, and back.
public enum TargetPath {
  /// Appends the path with percent escapes decoded, dot segments resolved and, if requested, slashes merged.
  ///
  /// As in nginx, an escaped slash or dot counts as a plain one: a rule must see what an upstream may see.
  /// Returns false, and appends nothing, for `%00`, a bad escape, a path that does not begin with `/`, and a path that
  /// climbs above the root. An empty path becomes `/`.
  public static func normalize(
    path: UnsafeRawBufferPointer, mergeSlashes: Bool, into output: inout ByteBuffer
  ) -> Bool {
    guard let base = path.baseAddress, path.count > 0 else {
      output.append(0x2F)
      return true
    }
    guard ByteScan.byte(base, 0) == 0x2F else { return false }
    if isPlain(base, path.count) {
      output.append(path)
      return true
    }
    output.reserve(path.count)
    guard let target = output.writable.baseAddress else { return false }
    var writer = Segments(target: target, mergesSlashes: mergeSlashes)
    var at = 0
    while at < path.count {
      var byte = ByteScan.byte(base, at)
      at += 1
      if byte == 0x25 {
        guard at + 2 <= path.count, let high = ASCII.hexValue(ByteScan.byte(base, at)),
          let low = ASCII.hexValue(ByteScan.byte(base, at + 1)), high | low != 0
        else { return false }
        byte = high << 4 | low
        at += 2
      }
      guard writer.append(byte) else { return false }
    }
    guard writer.finish() else { return false }
    output.didWrite(writer.count)
    return true
  }

  /// Appends a decoded path, with the characters escaped that nginx escapes in a path (`NGX_ESCAPE_URI`).
  public static func escape(_ path: UnsafeRawBufferPointer, into output: inout ByteBuffer) {
    guard let base = path.baseAddress else { return }
    if ByteSet.unescapedPath.containsAll(base, 0, path.count) {
      output.append(path)
      return
    }
    let digits: StaticString = "0123456789ABCDEF"
    output.reserve(path.count)
    for byte in path {
      if ByteSet.unescapedPath.contains(byte) {
        output.append(byte)
      } else {
        output.append(0x25)
        output.append(digits.utf8Start[Int(byte >> 4)])
        output.append(digits.utf8Start[Int(byte & 15)])
      }
    }
  }

  /// Appends text for a query, with the characters escaped that nginx escapes there (`NGX_ESCAPE_ARGS`).
  public static func escapeArgument(_ text: UnsafeRawBufferPointer, into output: inout ByteBuffer) {
    let digits: StaticString = "0123456789ABCDEF"
    output.reserve(text.count)
    for byte in text {
      if ByteSet.unescapedArgument.contains(byte) {
        output.append(byte)
      } else {
        output.append(0x25)
        output.append(digits.utf8Start[Int(byte >> 4)])
        output.append(digits.utf8Start[Int(byte & 15)])
      }
    }
  }

  /// Returns whether the path needs no change: it has no escape, and no slash or dot after a slash.
  private static func isPlain(_ base: UnsafeRawPointer, _ count: Int) -> Bool {
    var at = 0
    while at < count {
      let byte = ByteScan.byte(base, at)
      at &+= 1
      // All the bytes that need a look are at most 0x2F (the slash), and few other bytes are.
      if byte > 0x2F { continue }
      if byte == 0x25 { return false }
      if byte == 0x2F && at < count {
        let next = ByteScan.byte(base, at)
        if next == 0x2F || next == 0x2E { return false }
      }
    }
    return true
  }
}

/// Resolves path segments while writing them. It never writes more bytes than it received.
private struct Segments {
  let target: UnsafeMutableRawPointer
  let mergesSlashes: Bool
  private(set) var count = 0

  init(target: UnsafeMutableRawPointer, mergesSlashes: Bool) {
    self.target = target
    self.mergesSlashes = mergesSlashes
  }

  /// Appends a byte; returns false when the path climbs above the root.
  mutating func append(_ byte: UInt8) -> Bool {
    if byte == 0x2F {
      guard resolve() else { return false }
      if count > 0 && target.load(fromByteOffset: count - 1, as: UInt8.self) == 0x2F && (mergesSlashes || droppedDots) {
        return true
      }
    }
    target.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
    count += 1
    return true
  }

  /// Resolves the last segment.
  mutating func finish() -> Bool { resolve() }

  private var droppedDots = false

  /// Removes a last segment of `.` or `..`, and for `..` also the segment before it; keeps the slash before them.
  private mutating func resolve() -> Bool {
    droppedDots = false
    var start = count
    while start > 0 && count - start < 3 && byte(start - 1) != 0x2F { start -= 1 }
    guard start > 0, byte(start - 1) == 0x2F else { return true }
    if count - start == 1 && byte(start) == 0x2E {
      count = start
      droppedDots = true
    } else if count - start == 2 && byte(start) == 0x2E && byte(start + 1) == 0x2E {
      guard start > 1 else { return false }
      count = start - 1
      while byte(count - 1) != 0x2F {
        count -= 1
        guard count > 0 else { return false }
      }
      droppedDots = true
    }
    return true
  }

  private func byte(_ index: Int) -> UInt8 { target.load(fromByteOffset: index, as: UInt8.self) }
}
