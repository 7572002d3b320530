import Features
import Forward
import Language
import Traffic

/// How often each statement stands in a configuration with its included files, whatever its order, place and spelling.
/// `check --diff` finds by it what has changed and has no sentence of its own.
package struct StatementCounts {
  private struct Key: Hashable {
    /// The blocks around it, from the outermost one inward.
    var blocks: [String]
    var words: [String]
  }

  private var counts: [Key: Int] = [:]

  /// What can't be read has no statements: `check --diff` has then refused the file.
  package init(path: String) {
    var parser = Parser(mainFile: path, files: .disk)
    add(parser.parse(path: path), in: [])
  }

  private mutating func add(_ statements: [Directive], in blocks: [String]) {
    for statement in statements where statement.name != "include" {
      let words = [statement.name] + statement.arguments.map(\.text)
      counts[Key(blocks: blocks, words: words), default: 0] += 1
      if let block = statement.block { add(block, in: blocks + [words.joined(separator: " ")]) }
    }
  }

  /// The directives that stand in one configuration only, or more often, and of whose effect on trust no comparison tells:
  /// `check --diff` must not say that nothing has changed when it has not looked.
  package func uncompared(with other: StatementCounts) -> [String] {
    let keys = Set(counts.keys).union(other.counts.keys).filter { counts[$0] != other.counts[$0] }
    return Set(keys.compactMap(\.words.first))
      .filter { name in Features.all.directives.table.entries(named: name).allSatisfy { $0.trust == .untold } }.sorted()
  }
}
