/// What the file system says about a file.
public struct FileFacts: Sendable, Hashable {
  public enum Kind: Sendable, Hashable {
    case regular, folder
    /// A device, a FIFO or a socket.
    case other
  }

  public var kind: Kind
  public var size: UInt64
  /// When the contents changed last, in seconds since 1970.
  public var modified: Int64
  /// What changes when the file is replaced or written.
  var identity: Identity

  struct Identity: Sendable, Hashable {
    var device: UInt64
    var number: UInt64
    var modified: Int
    var changed: Int
  }

  package init(kind: Kind, size: UInt64, modified: Int64) {
    self.kind = kind
    self.size = size
    self.modified = modified
    identity = Identity(device: 0, number: 0, modified: 0, changed: 0)
  }
}

/// Why a file was not opened or read.
public enum FileFault: Error, Sendable, Hashable {
  /// The number is errno.
  case system(call: String, code: Int32)
  /// The file is another one, or has other contents, than at the first look.
  case changed
  /// The folder has more entries than this.
  case tooManyEntries(Int)

  /// No such file, in any of the ways in which the system says so.
  public var isAbsence: Bool {
    if case .system(_, let code) = self { Self.absent.contains(code) } else { false }
  }

  /// The rights don't allow it, it is reached by a link, or it is more than is read.
  public var isRefusal: Bool {
    switch self {
    case .system(_, let code): Self.refused.contains(code)
    case .tooManyEntries: true
    case .changed: false
    }
  }
}
