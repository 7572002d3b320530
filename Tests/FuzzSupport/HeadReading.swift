package import HTTP

/// Which of two faults is met first may depend on the pieces, and a line seen unfinished is judged at its end; whether
/// there is a fault may not.
package func agree(_ whole: HeadOutcome, _ pieces: HeadOutcome, atLineEnd: @autoclosure () -> HeadOutcome) -> Bool {
  if case .failed = whole {
    if case .failed = pieces { return true }
    if case .failed = atLineEnd() { return pieces == .incomplete }
    return false
  }
  return whole == pieces
}

/// Reads a head whose first bytes are known, then more of them, at each cut, in memory of its own.
package func read(
  _ bytes: [UInt8], _ cuts: [Int], by parse: (UnsafeRawBufferPointer) -> HeadOutcome
) -> HeadOutcome {
  var outcome = HeadOutcome.incomplete
  for end in cuts {
    outcome = Array(bytes[..<end]).withUnsafeBytes(parse)
    if outcome != .incomplete { break }
  }
  return outcome
}
