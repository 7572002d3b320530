import Forward
package import HTTP
import Language
import Observability
package import Traffic

/// path_readings, which nginx does not have: a request is admitted only if every reading of its path is.
///
/// An upstream can read a path in another way than the proxy, and so find behind an open location what a strict one guards:
/// `/admin;x/` is `/admin/` to Tomcat. In a server block whose locations differ in who may enter, the other readings of a
/// path are looked up, too, and the locations that they lead to must admit the client (docs/decisions/0043-path-readings.md).
///
/// The folder is the whole feature: the directive here, which locations differ in `WatchedPaths`, the search for the location of
/// a reading in `ReadingTree`, what happens to a request in `PathReadingStep`, and how a location is asked in `ReadingProbe`.
package struct PathReadingRules: FeatureSettings, LocationFeature {
  /// The readings that count for requests in the location; none with `off`.
  package private(set) var readings = PathReadings.all

  package init() {}

  // MARK: Directives

  package static let chapter = Chapter.http
  private static let name = "path_readings"
  /// In the order of the manual.
  private static let words: [(word: String, reading: PathReadings)] = [
    ("parameters", .parameters), ("backslash", .backslash), ("case", .case), ("dots", .dots), ("decode", .decode),
    ("slashes", .slashes), ("literal", .literal),
  ]

  package static let rows: [Row<PathReadingRules>] = [
    .line(
      name, .everyHTTP, .words(1...words.count, "off | READING …"), initial: words.map(\.word).joined(separator: " "),
      "How upstreams may read a path otherwise: without `;` and what follows it in a segment (`parameters`), with"
        + " backslashes as slashes (`backslash`), without regard to case (`case`), without dots and blanks at the end of"
        + " segments (`dots`), decoded once more (`decode`), with several slashes as one or as empty segments (`slashes`),"
        + " or with segments of dots as they are (`literal`). A request is refused with 403 if the location of another"
        + " reading would refuse it. This costs nothing where all locations of a server admit the same clients.",
      example: "path_readings parameters decode;", trust: .told
    ) { $0.readings = readings($1, &$2) }
  ]

  private static func readings(_ line: Directive, _ builder: inout SettingsBuilder) -> PathReadings {
    if line.arguments.count == 1, line.text(0) == "off" { return [] }
    var readings: PathReadings = []
    for word in line.arguments {
      guard let known = words.first(where: { $0.word == word.text }) else {
        builder.refuse(
          word, of: line, hint: "off alone, or any of \(words.map(\.word).joined(separator: ", "))")
        continue
      }
      readings.formUnion(known.reading)
    }
    return readings
  }

  /// Warns of `merge_slashes off` beside a location whose rules a request for `//PATH` escapes, because `path_readings` does
  /// not look up paths with fewer slashes.
  package static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    let root = block.root, other = root.locations.first { $0.match.prefixText == "/" } ?? root
    guard block.kind == .http, let line = block.scope.unmergedSlashes,
      other[PathReadingRules.self].map({ !$0.readings.contains(.slashes) }) ?? true
    else { return }
    let rules = EntryRules(of: other, isOfServer: other === root)
    let guarded = root.locations.first { location in
      guard let path = location.match.prefixText, path != "/" else { return false }
      let own = EntryRules(of: location)
      return own.canRefuse && own.text != rules.text
    }
    guard let path = guarded?.match.prefixText else { return }
    builder.warning(
      line.location, "with \"merge_slashes off\", a request for \"/\(path)\" escapes the rules of location \"\(path)\"",
      hint: "merge_slashes on; or path_readings slashes;")
  }

  // MARK: Effect

  package static let serverParts: [any ServerPart.Type] = [WatchedPaths.self]

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    guard let watched = makers.generation.http.servers[makers.server][WatchedPaths.self], !readings.isEmpty else {
      return
    }
    parts.steps.postAccess.append(PathReadingStep(readings, watched))
  }

  /// Between which locations other readings of a path count.
  package static func serverPolicy(_ root: LocationSettings) -> [(label: String, text: String)] {
    func names(_ locations: [LocationSettings]) -> String {
      locations.map(\.match.asWritten).joined(separator: ", ")
    }
    return WatchedPaths.pairs(root).map { pair in
      (
        "path readings",
        "a path in \(names(pair.open)) that can be read as one in \(names(pair.guarded)) needs its admission, too"
      )
    }
  }

  /// As the directive spells them.
  package var spelling: String {
    let names = Self.words.filter { readings.contains($0.reading) }.map(\.word)
    return names.isEmpty ? "off" : names.joined(separator: " ")
  }

  package var ways: LocationWays {
    var ways = LocationWays()
    ways.judgedReadings = readings.isEmpty ? nil : spelling
    return ways
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    func words(_ rules: Self?) -> Set<String> {
      Set(Self.words.filter { (rules?.readings ?? .all).contains($0.reading) }.map(\.word))
    }
    found.guards(words(old), words(new)) {
      "other readings of a path are judged, too: \($0) (path_readings)"
    } removed: {
      "other readings of a path are no longer judged: \($0) (path_readings)"
    }
  }
}
