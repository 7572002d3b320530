public import Observability

/// Where a certificate, key, CA, password or pin file is: parsed, so that it can be read, but not yet read.
///
/// Equal references are to the same file, wherever they stand. trust-and-identity.md §1. `store:` and `engine:` are refused here, by name, until they are built.
public struct MaterialReference: Sendable, Hashable, CustomStringConvertible {
  public enum Spelling: Sendable, Hashable {
    /// An absolute path, or one relative to the working directory when no folder was given.
    case path(String)
    /// A name in systemd's $CREDENTIALS_DIRECTORY: one path component.
    case credential(String)
  }

  public let spelling: Spelling
  /// Where a configuration names it; nil on a command line.
  @NotCompared public private(set) var location: SourceLocation?
  /// As the user spelt it.
  @NotCompared public private(set) var description: String

  /// `folder`: what a relative path resolves against, the configuration file's own; empty for the working directory.
  public init(
    parsing text: String, relativeTo folder: String, location: SourceLocation? = nil
  ) throws(MaterialError) {
    self.location = location
    self.description = text
    func refused(_ fault: String, hint: String) -> MaterialError {
      MaterialError(culprit: text, location: location, message: "\"\(text)\": \(fault)", hint: hint)
    }
    for scheme in ["store:", "engine:"] where text.hasPrefix(scheme) {
      throw refused(
        "\(scheme) is nginx's, but not supported yet",
        hint: "name a PEM, DER or PKCS#12 file, or a systemd credential as credential:NAME")
    }
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw refused("no file name", hint: "name a file, or a systemd credential as credential:NAME")
    }
    let prefix = "credential:"
    if text.hasPrefix(prefix) {
      let name = String(text.dropFirst(prefix.count))
      guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(0x2F) else {
        throw refused(
          "\"\(name)\" is no name of a credential",
          hint: "a credential is one file of $CREDENTIALS_DIRECTORY: no '/', not '.' or '..'")
      }
      spelling = .credential(name)
    } else {
      spelling = .path(text.hasPrefix("/") || folder.isEmpty ? text : "\(folder)/\(text)")
    }
  }

  /// A file that is known by its path: of a directory of pins, or on a command line.
  public init(path: String, location: SourceLocation? = nil) {
    spelling = .path(path)
    description = path
    self.location = location
  }

  /// How messages name it: the path that was tried, in quotes.
  var shown: String {
    switch spelling {
    case .path(let path): "\"\(path)\""
    case .credential: "\"\(description)\""
    }
  }
}
