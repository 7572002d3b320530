import Foundation

/// Folders and modes of files.
enum TestFolder {
  static func make() -> String {
    let path = NSTemporaryDirectory() + "/sallyport-acme-\(UInt64.random(in: 0 ... .max))"
    try? FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    return path
  }

  static func mode(of path: String) -> Int? {
    (try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]) as? Int
  }

  static func setMode(_ mode: Int, of path: String) {
    try? FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
  }
}
