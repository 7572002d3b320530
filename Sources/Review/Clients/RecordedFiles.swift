import Crypto
package import Features
import Glibc
import Language

/// Why records of clients can't be read.
package struct RecordedFilesError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

extension RecordedClients {
  /// Reads records of several machines as one. `paths`: files, and folders of which each file that ends with `.clients` is read.
  package init(files paths: [String]) throws(RecordedFilesError) {
    self.init()
    for path in paths {
      for file in try Self.files(at: path) { add(try Self.read(file)) }
    }
  }

  private static func files(at path: String) throws(RecordedFilesError) -> [String] {
    var state = stat()
    guard stat(path, &state) == 0, state.st_mode & S_IFMT == S_IFDIR else { return [path] }
    let names: [String]
    do throws(DirectoryError) { names = try namesInDirectory(path) } catch {
      throw RecordedFilesError(description: "\"\(path)\" can't be listed: \(String(cString: strerror(error.code)))")
    }
    let records = names.filter { $0.hasSuffix(ClientRecord.fileEnd) }
    guard !records.isEmpty else {
      throw RecordedFilesError(
        description: "\"\(path)\" holds no record of clients: no name in it ends with \(ClientRecord.fileEnd)")
    }
    return records.map { path.hasSuffix("/") ? path + $0 : "\(path)/\($0)" }
  }

  private static func read(_ path: String) throws(RecordedFilesError) -> RecordedClients {
    let bytes: [UInt8]
    switch SourceFiles.disk.read(path, largest) {
    case .failure(let fault): throw RecordedFilesError(description: "\"\(path)\" can't be read: \(fault.reason)")
    case .success(let found): bytes = found
    }
    do throws(ClientRecordError) { return try RecordedClients(reading: bytes) } catch {
      throw RecordedFilesError(description: "\"\(path)\" can't be read: \(error)")
    }
  }
}
