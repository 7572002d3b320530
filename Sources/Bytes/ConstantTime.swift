/// Comparison that takes the same time wherever two secrets differ, so that its duration tells nothing of them.
public enum ConstantTime {
  /// Equal byte for byte. Only a difference in count is found early: counts are no secret.
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
