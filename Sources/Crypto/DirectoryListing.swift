import Glibc

/// Why a directory can't be listed: its errno.
package struct DirectoryError: Error {
  package let code: CInt
}

/// Returns the sorted names in a directory without hidden ones, or throws if it can't read all of them. Blocks.
package func namesInDirectory(_ path: String) throws(DirectoryError) -> [String] {
  if let stream = opendir(path) { return try names(of: stream) }
  switch PrivilegedFiles.instead(of: errno, path) {
  case .success(let descriptor):
    defer { close(descriptor) }
    return try namesInDirectory(descriptor)
  case .failure(let refusal): throw DirectoryError(code: refusal.code)
  }
}

/// Returns the sorted names in an open directory without hidden ones. The caller keeps the descriptor.
package func namesInDirectory(_ descriptor: CInt) throws(DirectoryError) -> [String] {
  // fdopendir takes ownership of its descriptor, so it gets a copy.
  let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
  guard copy >= 0 else { throw DirectoryError(code: errno) }
  guard let stream = fdopendir(copy) else {
    let fault = DirectoryError(code: errno)
    close(copy)
    throw fault
  }
  return try names(of: stream)
}

private func names(of stream: OpaquePointer) throws(DirectoryError) -> [String] {
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
  guard errno == 0 else { throw DirectoryError(code: errno) }
  return names.sorted()
}
