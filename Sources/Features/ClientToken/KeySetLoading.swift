import Bytes
import Crypto
import Observability
import Signature
import Traffic

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
