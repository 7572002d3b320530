import Files

/// Opens a file, or the one that goes in its place. The calls block.
enum FileChoice {
  struct Found: Sendable {
    var result: Result<(facts: FileFacts, bytes: [UInt8]), FileFault>
    /// The other file is there.
    var isThere = false
    /// The result is that of the other file.
    var isOther = false
    /// Why the other file, which is there, can't be opened.
    var otherFault: FileFault?
  }

  /// Reads at most `count` bytes from the beginning of the file. `other`: goes instead if it is there and `use` says so.
  static func read(_ path: ServedPath, or other: ServedPath?, _ use: FileVariant.Use, count: Int) -> Found {
    var (isThere, fault): (Bool, FileFault?) = (false, nil)
    if let other {
      let result = ServedFile.read(other, count: use == .sent ? count : 0)
      switch result {
      case .success(let read):
        if use == .sent, read.facts.kind != .folder { return Found(result: result, isThere: true, isOther: true) }
        isThere = true
      case .failure(let found): if !found.isAbsence { fault = found }
      }
    }
    return Found(result: ServedFile.read(path, count: count), isThere: isThere, otherFault: fault)
  }
}
