import Audit
import FuzzSupport

/// Lines of an audit log: the first two bytes say which byte of which line is changed.
///
/// Holds: whatever the bytes are, they are read to the end. A chain that is whole, and of which a byte of a line before the last
/// one is changed, is whole no more.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  guard bytes.count > 2 else { return 0 }
  let text = Array(bytes[2...])
  _ = try? AuditTail(text, isWhole: true)
  _ = try? AuditTail(text, isWhole: false)
  var lines = text.split(separator: 0x0A, omittingEmptySubsequences: false).map { Array($0) }
  let before = verify(lines)
  require(before.lines == lines.count && before.problems.count <= lines.count + 1)
  guard before.problems.isEmpty, lines.count > 1, before.end != nil else { return 0 }
  let line = Int(bytes[0]) % (lines.count - 1)
  guard !lines[line].isEmpty, (try? AuditLine(lines[line])) != nil, (try? AuditLine(lines[line + 1])) != nil else {
    return 0
  }
  lines[line][Int(bytes[1]) % lines[line].count] ^= 1
  require(!verify(lines).problems.isEmpty)
  return 0
}

private func verify(_ lines: [[UInt8]]) -> AuditVerification {
  var verification = AuditVerification()
  verification.begin(file: "f")
  for line in lines { verification.take(line) }
  verification.finish()
  return verification
}
