import Foundation

/// The sanitizer with which the binary under test was built (`Tests/run --asan`, `--tsan`).
package enum Sanitizer {
  /// A sanitizer keeps freed memory, needs /proc, takes more CPU time, and wants to be the first library of its process.
  package static var isUsed: Bool { ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] != nil }
}
