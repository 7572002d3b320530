/// What the process may do with the files at and below a path. The kernel checks these rights when a file is opened.
///
/// Changing modes, owners and times, and asking whether a file exists, are not among them: Landlock doesn't govern them.
public struct FileAccess: OptionSet, Sendable, Hashable {
  public let rawValue: UInt64
  public init(rawValue: UInt64) { self.rawValue = rawValue }

  /// Values of linux/landlock.h, which no kernel changes.
  static let execute = FileAccess(rawValue: 1 << 0)
  static let writeFile = FileAccess(rawValue: 1 << 1)
  static let readFile = FileAccess(rawValue: 1 << 2)
  static let listFolder = FileAccess(rawValue: 1 << 3)
  static let removeFolder = FileAccess(rawValue: 1 << 4)
  static let removeFile = FileAccess(rawValue: 1 << 5)
  static let makeFolder = FileAccess(rawValue: 1 << 7)
  static let makeFile = FileAccess(rawValue: 1 << 8)
  static let makeSocket = FileAccess(rawValue: 1 << 9)
  /// Renaming and linking between folders.
  static let refer = FileAccess(rawValue: 1 << 13)
  static let truncate = FileAccess(rawValue: 1 << 14)

  /// Files are read, but nothing below is listed.
  public static let readOnlyByName: FileAccess = [.readFile]
  /// Files are read and folders listed.
  public static let read: FileAccess = [.readFile, .listFolder]
  /// Files are created and written, but not read.
  public static let append: FileAccess = [.writeFile, .makeFile, .truncate]
  /// Files, folders and sockets are created, changed and removed.
  public static let change: FileAccess = [
    .readFile, .listFolder, .writeFile, .makeFile, .truncate, .makeFolder, .makeSocket, .removeFile, .removeFolder,
    .refer,
  ]
  /// A device is read and written.
  public static let device: FileAccess = [.readFile, .writeFile, .truncate]

  /// All rights that Landlock of this version governs. What is governed and not granted is refused.
  static func governed(by version: Int32) -> FileAccess {
    var bits: UInt64 = (1 << 13) - 1
    if version >= 2 { bits |= 1 << 13 }
    if version >= 3 { bits |= 1 << 14 }
    // ioctl on devices
    if version >= 5 { bits |= 1 << 15 }
    return FileAccess(rawValue: bits)
  }

  /// The rights that make sense for what is not a folder: the kernel refuses the others there.
  static let ofPlainFile: FileAccess = [.execute, .writeFile, .readFile, .truncate, FileAccess(rawValue: 1 << 15)]
}
