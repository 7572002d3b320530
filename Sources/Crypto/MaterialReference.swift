public import Observability

/// Where a certificate, key, CA, password or pin file is: parsed, so that it can be read, but not yet read.
///
/// Equal references are to the same file, wherever they stand. trust-and-identity.md §1.
public struct MaterialReference: Sendable, Hashable, CustomStringConvertible {
  public enum Spelling: Sendable, Hashable {
    /// An absolute path, or one relative to the working directory when no folder was given.
    case path(String)
    /// A name in systemd's $CREDENTIALS_DIRECTORY: one path component.
    case credential(String)
    /// What OpenSSL's providers find a private key by (`store:URI`, nginx's): never a file of ours.
    case store(String)
  }

  public let spelling: Spelling
  /// Where a configuration names it; nil on a command line.
  @NotCompared public private(set) var location: SourceLocation?
  /// As the user spelt it.
  @NotCompared public private(set) var description: String

  /// `folder`: what a relative path resolves against, the configuration file's own; empty for the working directory.
  /// `isKey`: a private key is meant, the one thing that `store:` may name.
  public init(
    parsing text: String, relativeTo folder: String, location: SourceLocation? = nil, isKey: Bool = false
  ) throws(MaterialError) {
    self.location = location
    self.description = text
    func refused(_ fault: String, hint: String) -> MaterialError {
      MaterialError(culprit: text, location: location, message: "\"\(text)\": \(fault)", hint: hint)
    }
    if text.hasPrefix("engine:") {
      throw refused(
        "OpenSSL's engines are on their way out, and not supported",
        hint: "an OpenSSL provider does the same: store:pkcs11:…, or name a file")
    }
    if text.hasPrefix(Self.storePrefix) {
      let uri = String(text.dropFirst(Self.storePrefix.count))
      guard isKey, !uri.isEmpty, !uri.utf8.contains(0) else {
        throw refused(
          isKey ? "no URI after store:" : "store: names a private key, which is not what is wanted here",
          hint: isKey
            ? "store:pkcs11:object=NAME, as OpenSSL's provider spells it"
            : "name a PEM, DER or PKCS#12 file, or a systemd credential as credential:NAME")
      }
      spelling = .store(uri)
      return
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

  private static let storePrefix = "store:"

  /// How messages name it: the path that was tried, in quotes.
  var shown: String {
    switch spelling {
    case .path(let path): "\"\(path)\""
    case .credential, .store: "\"\(description)\""
    }
  }
}
