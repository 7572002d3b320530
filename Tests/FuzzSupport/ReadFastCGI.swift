import Bytes
package import CGI

/// What came of the bytes of a FastCGI server, with the parts of a stream joined.
package struct ReadFastCGI: Equatable {
  package var stdout: [UInt8] = []
  package var stderr: [UInt8] = []
  /// Bytes of STDOUT that had come when it ended; nil: it didn't.
  package var stdoutEnd: Int?
  package var end: FastCGIEnd?
  package var fault: FastCGIFault?
  package var faultAtClose: FastCGIFault?

  /// Reads pieces of `size` bytes, each in memory of its own. Ends the process if the reader breaks a rule.
  package init(_ bytes: [UInt8], size: Int = .max) {
    var reader = FastCGIReader()
    var rest = bytes[...]
    pieces: while !rest.isEmpty {
      var piece = Array(rest.prefix(size))
      rest = rest.dropFirst(size)
      while true {
        let taken: Int
        switch piece.withUnsafeBytes({ reader.next($0) }) {
        case .needsMore(let consumed):
          require(consumed == piece.count)
          continue pieces
        case .stdout(let start, let count, let consumed):
          require(end == nil && stdoutEnd == nil && start >= 0 && count > 0 && start + count == consumed)
          stdout += piece[start..<consumed]
          taken = consumed
        case .stderr(let start, let count, let consumed):
          require(end == nil && start >= 0 && count > 0 && start + count == consumed)
          stderr += piece[start..<consumed]
          taken = consumed
        case .stdoutEnd(let consumed):
          require(end == nil && stdoutEnd == nil)
          stdoutEnd = stdout.count
          taken = consumed
        case .end(let end, let consumed):
          require(self.end == nil)
          self.end = end
          taken = consumed
        case .failed(let fault):
          self.fault = fault
          require(piece.withUnsafeBytes { reader.next($0) } == .failed(fault))
          break pieces
        }
        require(taken <= piece.count)
        piece.removeFirst(taken)
      }
    }
    faultAtClose = reader.faultAtEndOfStream()
    require(faultAtClose == nil || !reader.isEnded)
  }
}
