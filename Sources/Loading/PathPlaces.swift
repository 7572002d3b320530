import Configuration
package import Observability
package import Language

/// Where a configuration names a path, for messages about a path whose setting keeps no place.
package enum PathPlaces {
  /// The first word that is this path, or begins with it as `path/$variable` does; nil if none is.
  package static func place(of path: String, in statements: [Directive], folder: String) -> SourceLocation? {
    for statement in statements {
      for word in statement.arguments {
        let named = resolve(word.text, in: folder)
        if named == path || named.hasPrefix(path + "/") || named.hasSuffix(":" + path) { return word.location }
      }
      if let block = statement.block, let place = place(of: path, in: block, folder: folder) { return place }
    }
    return nil
  }
}
