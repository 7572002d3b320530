import Glibc
import Traffic

/// The folders of `root` and `alias` without symbolic links, for `$realpath_root`.
///
/// nginx looks at the links at each request. An event loop doesn't wait for a disk, so sallyport looks when it loads the
/// configuration.
struct RealFolders: GenerationPart {
  /// By the name in the settings. A folder that isn't there is missing.
  private(set) var folders: [[UInt8]: [UInt8]] = [:]

  /// Blocks, so never call it on an event loop.
  mutating func find(_ http: HTTPSettings) {
    http.visitLocations { location in
      guard let folder = location[FileSettings.self]?.root.folder, folders[folder] == nil else { return }
      folders[folder] = Self.real(folder)
    }
  }

  private static func real(_ folder: [UInt8]) -> [UInt8]? {
    guard let text = realpath(String(decoding: folder, as: UTF8.self), nil) else { return nil }
    defer { free(text) }
    let path = Array(String(cString: text).utf8)
    // The name of a file can continue the folder's text, so its end stays as it is.
    return folder.last == 0x2F && path.last != 0x2F ? path + [0x2F] : path
  }
}
