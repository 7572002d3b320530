import Glibc

/// Why a directory can't be listed: its errno.
package struct DirectoryFault: Error {
  package let code: CInt
}

/// The names in a directory, sorted, hidden ones left out; all of them or a fault. Blocks.
package func namesInDirectory(_ path: String) throws(DirectoryFault) -> [String] {
  guard let stream = opendir(path) else { throw DirectoryFault(code: errno) }
  defer { closedir(stream) }
  var names: [String] = []
  errno = 0
  while let entry = readdir(stream) {
    let name = withUnsafePointer(to: &entry.pointee.d_name) { field in
      field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
        String(cString: $0)
      }
    }
    if !name.hasPrefix(".") { names.append(name) }
    errno = 0
  }
  guard errno == 0 else { throw DirectoryFault(code: errno) }
  return names.sorted()
}
