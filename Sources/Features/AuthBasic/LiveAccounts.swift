import Crypto
import Enrolment
import Observability
import Traffic

/// Where the users of `auth_basic` are, in one worker: one file, or a file that each request names.
///
/// The file is read for each password, on a thread of the blocking pool, so that no request keeps it.
enum LiveAccounts {
  case file(MaterialReference)
  case named(CompiledTemplate, folder: String)

  init(_ source: AuthBasic.Users) {
    switch source {
    case .file(let file): self = .file(file)
    case .named(let path, let folder): self = .named(path.compiled, folder: folder)
    }
  }

  /// For `check --explain`.
  var words: String {
    switch self {
    case .file(let file): "\(file)"
    case .named: "the file that the request names"
    }
  }

  /// The file for an exchange; nil, after a line in the log, for a path that no file can have, or that leads out of the
  /// folder that its beginning names: a request has a say in it.
  func file(for exchange: Exchange) -> MaterialReference? {
    switch self {
    case .file(let file): return file
    case .named(let template, let folder):
      let bytes = template.bytes(exchange)
      var text = String(decoding: bytes, as: UTF8.self)
      let isPath = !bytes.isEmpty && !bytes.contains(0) && Array(text.utf8) == bytes
      guard isPath, !text.split(separator: "/").contains("..") else {
        exchange.log(.error, "invalid path \"\(LogEscape.text(bytes))\" in \"auth_basic_user_file\"")
        return nil
      }
      // A text without a slash could be the name of a credential.
      if !text.hasPrefix("/") { text = folder.isEmpty ? "./\(text)" : "\(folder)/\(text)" }
      return try? MaterialReference(parsing: text, relativeTo: "", location: nil, isKey: false)
    }
  }

  /// The limit on wrong passwords. A file that a request names may be the one of an enrolment location, so the strictest
  /// limit of all holds for it.
  static func guessLimit(
    of settings: AuthBasic, _ limits: [MaterialReference: FailureWindow.Limit]
  ) -> FailureWindow.Limit? {
    if let users = settings.users { return limits[users] }
    return limits.values.reduce(nil as FailureWindow.Limit?) { $0?.stricter($1) ?? $1 }
  }
}
