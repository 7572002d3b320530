import Bytes
import Foundation
import Testing

@Suite struct `Pages of secrets` {
  /// The kernel's flags of the mapping that holds an address; nil if no line names it.
  private func flags(of address: UInt) throws -> [Substring]? {
    // Foundation reads only the start of a file whose size is said to be 0.
    let file = try #require(FileHandle(forReadingAtPath: "/proc/self/smaps"))
    let lines = String(decoding: file.readDataToEndOfFile(), as: UTF8.self).split(separator: "\n")
    var isInside = false
    for line in lines {
      if let range = line.firstMatch(of: #/^([0-9a-f]+)-([0-9a-f]+) /#),
        let start = UInt(range.output.1, radix: 16), let end = UInt(range.output.2, radix: 16)
      {
        isInside = start <= address && address < end
      } else if isInside, line.hasPrefix("VmFlags:") {
        return line.dropFirst("VmFlags:".count).split(separator: " ")
      }
    }
    return nil
  }

  @Test(
    .disabled(if: ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] != nil, "sanitizers ignore mlock"),
    arguments: [1, 32, 5000, 64 << 10])
  func `are locked and in no core file`(count: Int) throws {
    let secret = SecretBytes([UInt8](repeating: 7, count: count))
    let end = secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) + UInt($0.count) - 1 }
    let flags = try flags(of: end)
    #expect(flags?.contains("lo") == true && flags?.contains("dd") == true, "\(String(describing: flags))")
    #expect(secret.withUnsafeBytes { Array($0) } == [UInt8](repeating: 7, count: count))
  }

  @Test func `are given back, and none or many bytes need none`() throws {
    for count in [0, 1, 4096, 4097, 64 << 10, 65 << 10, 1 << 20] {
      for _ in 0..<50 { #expect(SecretBytes([UInt8](repeating: 1, count: count)).count == count) }
    }
    let large = SecretBytes([UInt8](repeating: 7, count: 1 << 20))
    let flags = try flags(of: large.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) + 4096 })
    #expect(flags?.contains("lo") != true)
  }
}
