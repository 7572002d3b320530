public import Observability

/// A reference to a certificate, key, CA, password or pin file: parsed, but not yet read.
///
/// Two references are equal if they lead to the same file, wherever the configuration names it.
public struct MaterialReference: Sendable, Hashable, CustomStringConvertible {
  public enum Spelling: Sendable, Hashable {
    /// An absolute path, or one relative to the working directory when no directory was given.
    case path(String)
    /// A name in systemd's $CREDENTIALS_DIRECTORY: one path component.
    case credential(String)
    /// A private key in a token or store.
    case key(KeyName)
    /// What the SPIFFE Workload API gives this process: `spiffe:`, or the SPIFFE ID of one of its identities or of a trust
    /// domain, not checked yet. No file.
    case workload(String)
    /// The content itself, usually PEM, in place of a file's name: nginx's `data:`.
    case text(String)
  }

  /// The name by which OpenSSL finds a private key. Both spellings are nginx's.
  public enum KeyName: Sendable, Hashable {
    /// `store:URI`: for OpenSSL's providers.
    case store(String)
    /// `engine:pkcs11:ID`: for OpenSSL's PKCS#11 engine.
    case engine(String)
  }

  public let spelling: Spelling
  /// Where a configuration names it; nil on a command line.
  @NotCompared public private(set) var location: SourceLocation?
  /// The user's text without a PIN and without the content of `data:`.
  @NotCompared public private(set) var description: String

  /// `folder`: the directory that resolves a relative path, the configuration file's own; empty for the working
  /// directory. `isKey`: the reference is to a private key. Only such a reference may use `store:`.
  public init(
    parsing text: String, relativeTo folder: String, location: SourceLocation? = nil, isKey: Bool = false
  ) throws(MaterialError) {
    self.location = location
    // What stands in the configuration may be a private key.
    let shown = text.hasPrefix(Self.textPrefix) ? "\(Self.textPrefix)…" : Self.withoutPIN(text)
    self.description = shown
    func refused(_ fault: String, hint: String) -> MaterialError {
      MaterialError(culprit: shown, location: location, message: "\"\(shown)\": \(fault)", hint: hint)
    }
    if text.hasPrefix("store:") || text.hasPrefix("engine:") {
      let isStore = text.hasPrefix("store:")
      guard isKey else {
        throw refused(
          "\(isStore ? "store:" : "engine:") names a private key, which is not what is wanted here",
          hint: "name a PEM, DER or PKCS#12 file, or a systemd credential as credential:NAME")
      }
      guard isStore || text.hasPrefix(Self.enginePrefix) else {
        throw refused(
          "of OpenSSL's engines only pkcs11 is supported",
          hint: "engine:pkcs11:ID, or a key of an OpenSSL provider as store:URI, or name a file")
      }
      let name = String(text.dropFirst(isStore ? "store:".count : Self.enginePrefix.count))
      guard !name.isEmpty, !name.utf8.contains(0) else {
        throw refused(
          "no name of a key in it",
          hint: "\(isStore ? "store:" : Self.enginePrefix)pkcs11:token=NAME;object=NAME, in quotes for the semicolon")
      }
      spelling = .key(isStore ? .store(name) : .engine(name))
      return
    }
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw refused("no file name", hint: "name a file, or a systemd credential as credential:NAME")
    }
    if text.hasPrefix(Self.textPrefix) {
      let content = String(text.dropFirst(Self.textPrefix.count))
      guard !content.isEmpty else { throw refused("there is no content", hint: "data: and a PEM text, in quotes") }
      spelling = .text(content)
      return
    }
    if text.hasPrefix(Self.workloadPrefix) {
      guard !isKey else {
        throw refused(
          "the key of a SPIFFE identity comes with its certificate",
          hint: "leave this directive out beside a certificate spiffe:")
      }
      spelling = .workload(text)
      return
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

  /// Makes a reference to a path, from a directory of pins or a command line.
  public init(path: String, location: SourceLocation? = nil) {
    spelling = .path(path)
    description = path
    self.location = location
  }

  /// Makes a reference to the file that keeps what messages call `description`.
  package init(path: String, keeping description: String, location: SourceLocation?) {
    spelling = .path(path)
    self.description = description
    self.location = location
  }

  /// Makes a reference to a content that messages call `description`.
  package init(text: String, shownAs description: String, location: SourceLocation?) {
    spelling = .text(text)
    self.description = description
    self.location = location
  }

  package static let textPrefix = "data:"
  private static let enginePrefix = "engine:pkcs11:"
  private static let workloadPrefix = "spiffe:"

  /// Whether the Workload API gives it, and no file.
  public var isOfWorkload: Bool { if case .workload = spelling { true } else { false } }

  /// Hides the PIN, which RFC 7512 allows in the URI and which must not appear in a log.
  private static func withoutPIN(_ text: String) -> String {
    guard let name = text.firstRange(of: "pin-value=") else { return text }
    let rest = text[name.upperBound...].drop { $0 != ";" && $0 != "&" && $0 != "?" }
    return text[..<name.upperBound] + "…" + withoutPIN(String(rest))
  }

  /// The reference for messages: the path that was tried, in quotes.
  var shown: String {
    switch spelling {
    case .path(let path): "\"\(path)\""
    case .credential, .key, .workload, .text: "\"\(description)\""
    }
  }
}
