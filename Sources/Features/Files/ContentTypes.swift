import Language
import Observability

/// types and default_type: the Content-Type of files, and of the texts of `return`. Their rows are those of `FileSettings`.
struct ContentTypes: LocationFeature {
  let settings: TypeSettings

  /// The tables of `types` by the places of the blocks.
  struct Block: BlockPart {
    fileprivate var tables: [[SourceLocation]: TypeTable] = [:]
  }

  static let chapter = Chapter.files
  static let directives: [DirectiveEntry] = []

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> ContentTypes? {
    ContentTypes(settings: builder.types(level.scope))
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.types = settings }
}

extension SettingsBuilder {
  fileprivate mutating func types(_ scope: Scope) -> TypeSettings {
    var types = TypeSettings()
    if let standard = scope.text("default_type") { types.standard = Array(standard.utf8) }
    if let line = scope.value("default_type"), !Self.isFieldText(line.text(0)) {
      error(line.place(0), "a control character in \"default_type\"", hint: "such as text/plain")
    }
    let blocks = scope.list("types")
    if !blocks.isEmpty { types.table = typeTable(blocks) }
    return types
  }

  private static func isFieldText(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

  /// Levels that inherit the same blocks share one table.
  private mutating func typeTable(_ blocks: [Directive]) -> TypeTable {
    let places = blocks.map(\.location)
    if let known = self[ContentTypes.Block.self].tables[places] { return known }
    var types: [[UInt8]: [UInt8]] = [:]
    for line in blocks.flatMap({ $0.block ?? [] }) {
      guard !line.arguments.isEmpty, line.block == nil, Self.isFieldText(line.name) else {
        error(line.location, "invalid line in \"types\"", hint: "TYPE ENDING …;")
        continue
      }
      for word in line.arguments {
        let former = types.updateValue(Array(line.name.utf8), forKey: Array(word.text.lowercased().utf8))
        if let former {
          warning(
            word.location,
            "duplicate extension \"\(word.text)\", content type: \"\(line.name)\", previous content type: \"\(String(decoding: former, as: UTF8.self))\"",
            hint: "the last one counts")
        }
      }
    }
    let table = TypeTable(types)
    self[ContentTypes.Block.self].tables[places] = table
    return table
  }
}
