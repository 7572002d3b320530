import ACME
import Crypto
import Language
import Observability
import Signature
import Traffic

/// Where the keys of tokens come from.
struct KeySource: Sendable, Hashable, CustomStringConvertible {
  enum Place: Sendable, Hashable {
    case file(MaterialReference)
    /// `trusted`: the CAs that verify its server; nil: the system's.
    case url(ACMEURL, trusted: MaterialReference?)
  }

  let place: Place
  /// Files that change are taken up (`ssl_reload`).
  let reloads: Bool

  /// Returns nil after an error in the words.
  init?(_ line: Directive, _ keys: Word, _ trusted: Word?, reloads: Bool, _ builder: inout SettingsBuilder) {
    self.reloads = reloads
    guard keys.text.contains("://") else {
      if let trusted {
        builder.error(trusted.location, "\"trusted=\" beside a file of keys", hint: "leave it out")
        return nil
      }
      guard let file = builder.reference(line, keys, isKey: false) else { return nil }
      place = .file(file)
      return
    }
    guard let url = ACMEURL(keys.text) else {
      builder.error(
        keys.location, "invalid URL \"\(keys.text)\" in \"\(line.name)\"",
        hint: "https://HOST[:PORT]/PATH: over http, anybody on the way could bring keys of their own")
      return nil
    }
    var file: MaterialReference?
    if let trusted {
      guard let reference = builder.reference(line, trusted, isKey: false) else { return nil }
      file = reference
    }
    place = .url(url, trusted: file)
  }

  var description: String {
    switch place {
    case .file(let file): "\(file)"
    case .url(let url, _): "\(url)"
    }
  }

  /// What a change of is told.
  var spelling: String {
    if case .url(let url, let trusted?) = place { "\(url), verified by \(trusted)" } else { description }
  }

  var fileUses: [FileUse] {
    switch place {
    case .file(let file): FileUse.material([file], reloads: reloads)
    case .url(_, let trusted): FileUse.material([trusted], reloads: reloads)
    }
  }

  /// The keys as a worker asks for them.
  func keys(_ makers: LiveMakers) -> LiveKeys {
    switch place {
    case .file: .fixed(makers.generation[KeySets.self].sets[self])
    case .url(let url, let trusted): .fetched(makers.shared[FetchedKeys.self].keys(FetchedKeys.Source(url, trusted)))
    }
  }
}

/// The keys of a location's tokens.
enum LiveKeys {
  /// nil: the file could not be loaded.
  case fixed(WebKeySet?)
  case fetched(FetchedKeys.Keys)
}

/// The key sets of files.
struct KeySets: GenerationPart {
  var sets: [KeySource: WebKeySet] = [:]
}
