/// A path that a request leads to: a folder that the configuration names, and a path below it.
///
/// Links in the folder's own path are followed. Below the folder none is: a request can't leave the folder, whoever may
/// write in it. A value of this type has neither a NUL byte nor a segment `..`, so it names what its text says.
public struct ServedPath: Sendable, Hashable {
  /// Absolute.
  public let folder: [UInt8]
  /// Without slashes at its beginning. Empty: the folder itself, or the file that `folder` names.
  public let below: [UInt8]

  /// nil: the path has a NUL byte, or would climb by `..`.
  public init?(folder: [UInt8], below: [UInt8]) {
    let below = Array(below.drop { $0 == 0x2F })
    guard !folder.contains(0), !below.contains(0),
      !below.split(separator: 0x2F).contains(where: { $0.elementsEqual([0x2E, 0x2E]) })
    else { return nil }
    self.folder = folder
    self.below = below
  }

  /// The whole path, for messages.
  public var text: [UInt8] {
    if below.isEmpty { return folder }
    return folder.last == 0x2F ? folder + below : folder + [0x2F] + below
  }
}
