import ACME
import Bytes
import Crypto
import Language
import Observability
import Signature
import Synchronization
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

private struct KeySetUnit: MaterialUnit {
  typealias Content = WebKeySet
  let file: MaterialReference
  /// What a block with `ssl_reload off` keeps is not what others load anew.
  let reloads: Bool
}

extension MaterialKind {
  static let keySet = MaterialKind("the key set", expecting: "public keys as a JSON Web Key Set (RFC 7517)")
}

extension ClientToken {
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    http.visitLocations { location in
      guard let source = location[ClientToken.self]?.source, parts[KeySets.self].sets[source] == nil else { return }
      guard case .file(let file) = source.place else {
        // Read again for each request to the server.
        if case .url(_, let trusted?) = source.place { _ = loader.authorities(trusted, passwordFile: nil) }
        return
      }
      parts[KeySets.self].sets[source] = loader.unit(
        KeySetUnit(file: file, reloads: source.reloads), UnitFiles(.keySet, file), reloads: source.reloads
      ) { loader in
        loader.attempt { () throws(MaterialError) in
          let text = try file.read(expecting: .keySet).withUnsafeBytes { Array($0) }
          do throws(WebKeyFault) { return try WebKeySet(text) } catch {
            throw MaterialError(
              culprit: file.description, location: file.location, message: "\"\(file)\": \(error)",
              hint: "{\"keys\": [...]} with the public keys of the issuer, as its jwks_uri has them")
          }
        }
      }
    }
  }
}
