import Crypto
import Glibc
import Observability
import Traffic

extension MaterialLoader {
  /// Warns of a file with passwords that every user of the system may read.
  mutating func warnOfReaders(_ file: MaterialReference) {
    guard let path = try? file.resolvedPath(expecting: .users) else { return }
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & 0o004 != 0 else { return }
    report(
      Diagnostic(
        .warning, at: file.location, "\"\(file)\" holds passwords, and every user of the system may read it",
        hint: "chmod 600 \(path)"))
  }
}
