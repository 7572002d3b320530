import Glibc

/// Why a directory can't be listed: its errno.
package struct DirectoryFault: Error {
  package let code: CInt
}

/// The names in a directory, sorted, hidden ones left out; all of them or a fault. Blocks.
package func namesInDirectory(_ path: String) throws(DirectoryFault) -> [String] {
  guard let stream = opendir(path) else { throw DirectoryFault(code: errno) }
  return try names(of: stream)
}

/// The same of a directory that is open. The descriptor stays the caller's.
package func namesInDirectory(_ descriptor: CInt) throws(DirectoryFault) -> [String] {
  // A listing takes its descriptor over.
  let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
  guard copy >= 0 else { throw DirectoryFault(code: errno) }
  guard let stream = fdopendir(copy) else {
    let fault = DirectoryFault(code: errno)
    close(copy)
    throw fault
  }
  return try names(of: stream)
}

private func names(of stream: OpaquePointer) throws(DirectoryFault) -> [String] {
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
