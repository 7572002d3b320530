package import Crypto
import Language
package import Observability
package import TLS

/// A file or a folder that the configuration names, and what sallyport does with it.
///
/// These declarations are the only list of files: by them the watcher knows what to look at, the sandbox what to allow, and
/// the loader what it may load. What no feature declares is not watched, not allowed and not loaded.
package struct FileUse: Sendable, Hashable {
  package enum Subject: Sendable, Hashable {
    case material(MaterialReference)
    /// A file of pins, a folder of such files, or a hash, which is no file.
    case pins(PinSource)
    case path(String)
  }

  /// What the process may do with the file while it serves.
  package enum Permission: Sendable, Hashable {
    /// A file that is read, or a folder with such files.
    case read
    /// A file that is created if it is missing, and written at its end.
    case append
    /// A folder in which the process makes, changes and removes files.
    case change
  }

  /// Who reads it, and when.
  package enum Reading: Sendable, Hashable {
    /// The loader, for each generation. A change of the file makes a new generation.
    case watched
    /// The loader, for each configuration (`ssl_reload off`).
    case loaded
    /// Requests, each time anew. The loader reads it once to find its faults.
    case byRequests
    /// Whoever serves opens it when it is needed.
    case later
  }

  package let subject: Subject
  package let access: Permission
  package let reading: Reading
  /// Where the configuration says so.
  @NotCompared package var location: SourceLocation?

  private init(_ subject: Subject, _ access: Permission, _ reading: Reading, at location: SourceLocation?) {
    self.subject = subject
    self.access = access
    self.reading = reading
    self.location = location
  }

  /// Keys, certificates and lists that are loaded. `reloads`: `ssl_reload` of their block.
  package static func material(_ files: [MaterialReference?], reloads: Bool = true) -> [FileUse] {
    files.compactMap { file in
      file.map { FileUse(.material($0), .read, reloads ? .watched : .loaded, at: $0.location) }
    }
  }

  package static func pins(_ settings: PinSettings?, reloads: Bool) -> [FileUse] {
    (settings?.sources ?? []).map { FileUse(.pins($0), .read, reloads ? .watched : .loaded, at: $0.location) }
  }

  /// Files that requests read, such as those of users.
  package static func requestFiles(_ files: [MaterialReference?]) -> [FileUse] {
    files.compactMap { file in file.map { FileUse(.material($0), .read, .byRequests, at: $0.location) } }
  }

  /// A path that is opened when it is needed.
  package static func path(_ access: Permission, _ path: String, at location: SourceLocation? = nil) -> FileUse {
    FileUse(.path(path), access, .later, at: location)
  }

  /// A path that is looked at, and whose change makes a new generation.
  package static func watched(_ access: Permission, _ path: String) -> FileUse {
    FileUse(.path(path), access, .watched, at: nil)
  }

  /// The folder in which the bodies of a location's requests are kept.
  package static func bodyFolder(of location: LocationSettings) -> FileUse {
    .path(.change, location.bodyFolder, at: location.bodyFiles?.folder?.location)
  }

  /// The folder that a path with variables begins with: requests complete the path below it. nil: it begins with none.
  package static func folder(before template: Template, in folder: String, at location: SourceLocation? = nil)
    -> FileUse?
  {
    guard case .literal(let bytes)? = template.parts.first else { return .path(.read, folder, at: location) }
    let path = resolve(String(decoding: bytes, as: UTF8.self), in: folder)
    guard template.parts.count > 1 else { return .path(.read, path, at: location) }
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex else { return nil }
    return .path(.read, String(path[..<slash]), at: location)
  }

  /// The path; nil for a hash of a key, and for a key in a token.
  package var resolvedPath: String? {
    switch subject {
    case .material(let file): try? file.resolvedPath(expecting: .certificate)
    case .pins(let source): try? source.reference?.resolvedPath(expecting: .pin)
    case .path(let path): path
    }
  }

  /// The file; nil for a path, and for a hash of a key.
  package var material: MaterialReference? {
    switch subject {
    case .material(let file): file
    case .pins(let source): source.reference
    case .path: nil
    }
  }
}

extension UpstreamTLSSettings {
  /// What a connection to an upstream is made with.
  package var fileUses: [FileUse] {
    FileUse.material(
      [certificate?.certificate, certificate?.key, passwordFile, trust.anchors?.file] + revocationLists,
      reloads: reloads) + FileUse.pins(trust.pins, reloads: reloads)
  }
}

extension HTTPSettings {
  /// Every file and folder that the servers and locations name, some of them more than once: those of the blocks, then those
  /// of the locations in the order of the configuration.
  package var fileUses: [FileUse] {
    var uses = features.all.flatMap { $0.fileUses(self) }
    for server in servers {
      server.root.visitNested { location in uses += location.features.flatMap { $0.fileUses(location) } }
    }
    return uses
  }

  /// The files in which the process keeps what the API changes.
  package var stateFiles: [String] { features.all.flatMap { $0.stateFiles(self) } }
}

extension LocationSettings {
  package var bodyFolder: String { bodyFiles?.folder?.path ?? BodyFolder.path }
}

extension PinSource {
  /// The file; nil for a pin that is a hash.
  package var reference: MaterialReference? {
    guard Pin.Spelling(spelling) == .file else { return nil }
    return try? MaterialReference(parsing: spelling, relativeTo: folder, location: location)
  }
}
