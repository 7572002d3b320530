import Traffic

/// What features add to each line of the predefined log format `json`, because lines of the configuration need it. Who
/// has none of those lines writes no byte more.
struct LoggedMembers: BlockPart {
  private(set) var all: [(name: String, variable: String)] = []

  /// Adds a member once, with the value of a variable.
  mutating func add(_ name: String, _ variable: String) {
    if !all.contains(where: { $0.name == name }) { all.append((name, variable)) }
  }

  mutating func endBlock() { self = LoggedMembers() }
}
