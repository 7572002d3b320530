import Glibc
package import Proxy

/// The folders of `root` and `alias` without symbolic links, for `$realpath_root`.
///
/// nginx looks at the links at each request. An event loop doesn't wait for a disk, so sallyport looks when it loads the
/// configuration.
package enum RealFolders {
  /// By the name in the settings. A folder that isn't there is missing. Blocks, so never call it on an event loop.
  package static func of(_ http: HTTPSettings) -> [[UInt8]: [UInt8]] {
    var found: [[UInt8]: [UInt8]] = [:]
    for (_, location) in http.everyLocation {
      guard let folder = location[FileSettings.self]?.root.folder, found[folder] == nil else { continue }
      found[folder] = real(folder)
    }
    return found
  }

  private static func real(_ folder: [UInt8]) -> [UInt8]? {
    guard let text = realpath(String(decoding: folder, as: UTF8.self), nil) else { return nil }
    defer { free(text) }
    let path = Array(String(cString: text).utf8)
    // The name of a file can continue the folder's text, so its end stays as it is.
    return folder.last == 0x2F && path.last != 0x2F ? path + [0x2F] : path
  }
}
