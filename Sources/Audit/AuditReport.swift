import Bytes
package import Crypto
import Glibc
import Observability

/// What `sallyport audit verify` says of the files of one log.
package struct AuditReport: Sendable {
  package let verification: AuditVerification
  private let files: [String]
  private let checksSignatures: Bool

  /// Why a file can't be read.
  package struct Unreadable: Error, CustomStringConvertible {
    package let description: String
  }

  /// Reads the files in their order, the oldest first; `-` is standard input. `expected`: the SHA-256 of the last line.
  package init(
    files: [String], keys: [SignatureKey] = [], expecting expected: [UInt8]? = nil
  ) throws(Unreadable) {
    var verification = AuditVerification(keys: keys)
    for file in files {
      verification.begin(file: file)
      try Self.read(file, &verification)
    }
    verification.finish(expecting: expected)
    self.verification = verification
    self.files = files
    checksSignatures = !keys.isEmpty
  }

  /// Gives a file's lines to the check. A line beyond the limit is given cut, and is none then.
  private static func read(_ file: String, _ verification: inout AuditVerification) throws(Unreadable) {
    let descriptor = file == "-" ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY)
    guard descriptor >= 0 else { throw Unreadable(description: "\(file): \(String(cString: strerror(errno)))") }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 1 << 16), line: [UInt8] = []
    while true {
      let count = buffer.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw Unreadable(description: "\(file): \(String(cString: strerror(errno)))") }
      if count == 0 { break }
      for byte in buffer[..<count] {
        if byte == 0x0A {
          verification.take(line)
          line.removeAll(keepingCapacity: true)
        } else if line.count <= AuditLine.longest {
          line.append(byte)
        }
      }
    }
    if !line.isEmpty { verification.take(line, isEnded: false) }
  }

  /// Nothing proves that the log was changed.
  package var isSound: Bool { verification.problems.isEmpty && verification.lines > 0 }

  private var summary: String {
    guard let first = verification.first, let end = verification.end else {
      return "\(verification.lines) lines, none of which is one of an audit log"
    }
    let signatures =
      checksSignatures
      ? "\(verification.signatures) valid signatures; \(verification.unsigned) lines at the end are not signed yet"
      : "\(verification.signatures) signatures, which were not checked: give --key"
    return
      "lines \(first) to \(end.number), \(signatures)\nends with line \(end.number), SHA-256 \(Hex.encode(end.hash))"
  }

  package var text: String {
    var text = "\(files.joined(separator: ", ")): \(summary)\n"
    for problem in verification.problems { text += "\(problem.place): \(problem.words)\n" }
    for gap in verification.gaps { text += "\(gap.place): gap: \(gap.words)\n" }
    text += isSound ? "the chain is whole\n" : "the log was changed\n"
    return text
  }

  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("sound", isSound)
      json.member("lines", verification.lines)
      json.member("first", verification.first)
      json.member("last", verification.end?.number)
      json.member("sha256", verification.end.map { Hex.encode($0.hash) })
      json.member("signatures", verification.signatures)
      json.member("signatures_checked", checksSignatures)
      json.member("unsigned", verification.unsigned)
      func append(_ finding: AuditVerification.Finding, to json: inout JSONText) {
        json.object {
          $0.member("file", finding.file)
          $0.member("line", finding.line)
          $0.member("words", finding.words)
        }
      }
      json.array("problems", verification.problems) { append($0, to: &$1) }
      json.array("gaps", verification.gaps) { append($0, to: &$1) }
    }
    return json.text
  }
}
