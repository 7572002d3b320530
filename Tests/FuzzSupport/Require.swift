/// Ends the process with the line of a rule that doesn't hold, which is what the fuzzer reports.
package func require(_ holds: Bool, line: UInt = #line) {
  if !holds { fatalError("line \(line)") }
}
