import Forward
import Language
import Observability
import Traffic

/// types and default_type: the Content-Type of files, and of the texts of `return`. Their rows are among those of `FileSettings`.
struct ContentTypes: FeatureSettings, LocationFeature {
  var settings = TypeSettings()

  /// The tables of `types` by the places of the blocks.
  struct Block: BlockPart {
    fileprivate var tables: [[SourceLocation]: TypeTable] = [:]
  }

  static let chapter = Chapter.files
  static let directives: [DirectiveEntry] = []

  static let rows: [Row<ContentTypes>] = [
    .lines(
      "types", .everyHTTP, .table(0...0, ""), initial: "text/html html; image/gif gif; image/jpeg jpg",
      "The Content-Type of files by the ends of their names: lines `TYPE ENDING …;`.",
      example: "types { text/html html; text/css css; }", trust: .none
    ) { $0.settings.table = table($1, &$2) },
    .line(
      "default_type", .everyHTTP, .words(1...1, "TYPE"),
      initial: String(decoding: TypeSettings().standard, as: UTF8.self),
      "The Content-Type of other files, and of the text of `return`.",
      example: "default_type application/octet-stream;",
      trust: .none
    ) { types, line, builder in
      types.settings.standard = Array(line.text(0).utf8)
      if !isFieldText(line.text(0)) {
        builder.error(line.place(0), "a control character in \"default_type\"", hint: "such as text/plain")
      }
    },
  ]

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.types = settings }

  private static func isFieldText(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

  /// Levels that inherit the same blocks share one table.
  private static func table(_ blocks: [Directive], _ builder: inout SettingsBuilder) -> TypeTable {
    let places = blocks.map(\.location)
    if let known = builder[Block.self].tables[places] { return known }
    var types: [[UInt8]: [UInt8]] = [:]
    for line in blocks.flatMap({ $0.block ?? [] }) {
      guard !line.arguments.isEmpty, line.block == nil, isFieldText(line.name) else {
        builder.error(line.location, "invalid line in \"types\"", hint: "TYPE ENDING …;")
        continue
      }
      for word in line.arguments {
        let former = types.updateValue(Array(line.name.utf8), forKey: Array(word.text.lowercased().utf8))
        if let former {
          builder.warning(
            word.location,
            "duplicate extension \"\(word.text)\", content type: \"\(line.name)\", previous content type: \"\(String(decoding: former, as: UTF8.self))\"",
            hint: "the last one counts")
        }
      }
    }
    let table = TypeTable(types)
    builder[Block.self].tables[places] = table
    return table
  }
}
