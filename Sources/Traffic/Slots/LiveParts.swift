/// What a feature keeps in one worker's generation: connections to a store, resolvers, tables. Lives on the worker's loop, and
/// ends with the last client of its generation.
class LivePart {
  required init(_ makers: LiveMakers) {}
  /// The generation begins to serve.
  func open() {}
  /// About each second. `now`: milliseconds of the loop's clock.
  func tick(now: UInt64) {}
  /// Log files are reopened, or the process ends: what waits to be written is handed over.
  func flush() {}
  /// No new exchange begins in the generation.
  func close() {}
}

/// The parts of all features in one worker's generation, found by their types. A part is made when somebody asks for it
/// first, or when the generation is complete.
final class LiveParts {
  private var parts: [ObjectIdentifier: LivePart] = [:]
  private(set) var all: [LivePart] = []

  func part<Part: LivePart>(_ kind: Part.Type, _ makers: LiveMakers) -> Part {
    if let known = parts[ObjectIdentifier(kind)] as? Part { return known }
    let fresh = kind.init(makers)
    parts[ObjectIdentifier(kind)] = fresh
    all.append(fresh)
    return fresh
  }

  /// nil: no feature has asked for the part while locations were compiled.
  subscript<Part: LivePart>(_ kind: Part.Type) -> Part? { parts[ObjectIdentifier(kind)] as? Part }
}

extension LiveMakers {
  /// What a feature keeps in this generation.
  subscript<Part: LivePart>(_ kind: Part.Type) -> Part { parts.part(kind, self) }
}

extension LiveGeneration {
  /// What a feature keeps in this generation; nil: nobody asked for it while locations were compiled.
  subscript<Part: LivePart>(_ kind: Part.Type) -> Part? { parts[kind] }
}
