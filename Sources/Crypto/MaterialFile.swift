package import Bytes
import Glibc

extension MaterialReference {
  /// The largest size of a file: one that a configuration names by mistake must not exhaust memory.
  package static let sizeLimit = 16 << 20

  /// The directory of this service's systemd credentials; nil without credentials.
  package static var credentialsDirectory: String? {
    guard let folder = getenv("CREDENTIALS_DIRECTORY"), folder.pointee != 0 else { return nil }
    return String(cString: folder)
  }

  /// Returns the path of the file.
  package func resolvedPath(
    expecting kind: MaterialKind, credentialsDirectory: String? = Self.credentialsDirectory
  ) throws(MaterialError) -> String {
    switch spelling {
    case .path(let path): return path
    case .credential(let name):
      guard let credentialsDirectory else {
        throw MaterialError(
          self, "$CREDENTIALS_DIRECTORY is not set; expected \(kind.expectation)",
          hint: "start under systemd with LoadCredential=\(name):PATH in the unit")
      }
      return "\(credentialsDirectory)/\(name)"
    case .key:
      throw MaterialError(
        self, "names a private key in a token or store; expected \(kind.expectation)", hint: "name a file")
    case .workload:
      throw MaterialError(
        self, "what the SPIFFE Workload API gives can't be used here; expected \(kind.expectation)",
        hint:
          "ssl_certificate, ssl_client_certificate, proxy_ssl_certificate and proxy_ssl_trusted_certificate take spiffe:"
      )
    case .text:
      throw MaterialError(self, "stands in the configuration itself; expected \(kind.expectation)", hint: "name a file")
    }
  }

  /// A path at which there is nothing.
  package var isMissing: Bool {
    guard case .path(let path) = spelling else { return false }
    return access(path, F_OK) != 0 && errno == ENOENT
  }

  /// Reads the whole file: at least one byte, at most `sizeLimit`. `onlyRegular`: refuses what is no regular file, and so
  /// never waits for a writer. Blocks, so never call it on an event loop.
  package func read(
    expecting kind: MaterialKind, credentialsDirectory: String? = Self.credentialsDirectory, onlyRegular: Bool = false
  ) throws(MaterialError) -> SecretBytes {
    if case .text(let content) = spelling { return Array(content.utf8).withUnsafeBytes { SecretBytes(copying: $0) } }
    let path = try resolvedPath(expecting: kind, credentialsDirectory: credentialsDirectory)
    let file: CInt
    switch PrivilegedFiles.open(path) {
    case .success(let opened): file = opened
    case .failure(let refusal): throw failure("cannot be opened", refusal.code, kind, refusal.reason)
    }
    defer { close(file) }

    var status = stat()
    guard fstat(file, &status) == 0 else { throw failure("cannot be read", errno, kind) }
    guard !onlyRegular || status.st_mode & S_IFMT == S_IFREG else {
      throw MaterialError(self, "is not a regular file; expected \(kind.expectation)")
    }
    var capacity = max(4096, min(Int(status.st_size), Self.sizeLimit) + 1)
    var contents = try fill(from: file, capacity: capacity, after: nil, kind)
    while contents.count == capacity {
      guard capacity <= Self.sizeLimit else {
        throw MaterialError(self, "larger than \(Self.sizeLimit >> 20) MiB; expected \(kind.expectation)")
      }
      capacity = min(capacity * 4, Self.sizeLimit + 1)
      contents = try fill(from: file, capacity: capacity, after: contents, kind)
    }
    guard !contents.isEmpty else { throw MaterialError(self, "empty; expected \(kind.expectation)") }
    return contents
  }

  /// Returns `start` and what follows it in the file, until the end of the file or until `capacity` is full.
  private func fill(
    from file: CInt, capacity: Int, after start: SecretBytes?, _ kind: MaterialKind
  ) throws(MaterialError) -> SecretBytes {
    try SecretBytes(capacity: capacity) { (room) throws(MaterialError) -> Int in
      start?.withUnsafeBytes { room.copyMemory(from: $0) }
      var filled = start?.count ?? 0
      while filled < room.count, let base = room.baseAddress {
        let count = Glibc.read(file, base + filled, room.count - filled)
        if count < 0, errno == EINTR { continue }
        if count < 0, errno == EAGAIN, Self.waits(for: file) { continue }
        guard count >= 0 else { throw failure("cannot be read", errno, kind) }
        if count == 0 { break }
        filled += count
      }
      return filled
    }
  }

  /// Waits up to five seconds for a pipe with a slow writer. A pipe without a writer must not block a reload.
  private static func waits(for file: CInt) -> Bool {
    var entry = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, 5000) > 0
  }

  /// `refused`: why the process that stayed root did not open the file.
  private func failure(
    _ fault: String, _ code: CInt, _ kind: MaterialKind, _ refused: String? = nil
  ) -> MaterialError {
    let words = "\(fault): \(String(cString: strerror(code)))"
    if let refused {
      let facts = (try? resolvedPath(expecting: kind)).flatMap { AccessDenial(of: $0, code)?.facts }
      return MaterialError(
        self, "\(words): \(facts.map { "\($0); " } ?? "")\(refused)",
        hint: "let the group of `user` read the file, or mend what the opener of root's files says")
    }
    if let path = try? resolvedPath(expecting: kind), let denial = AccessDenial(of: path, code) {
      return MaterialError(self, "\(words): \(denial.facts)", hint: denial.hint)
    }
    return MaterialError(self, "\(words); expected \(kind.expectation)")
  }
}
