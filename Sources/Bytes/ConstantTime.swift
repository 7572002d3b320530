/// Compares secrets in a time that does not depend on where they differ, so that the time reveals nothing about them.
public enum ConstantTime {
  /// Whether the bytes are equal. Only a difference in count returns early: counts are not secret.
  @inline(never)
  public static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for index in 0..<left.count { difference |= left[index] ^ right[index] }
    return difference == 0
  }

  public static func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.withUnsafeBytes { left in right.withUnsafeBytes { right in equal(left, right) } }
  }
}
