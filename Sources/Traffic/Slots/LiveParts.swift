public import Upstream

/// What a feature keeps in one worker's generation: connections to a store, resolvers, tables. Lives on the worker's loop, and
/// ends with the last client of its generation.
open class LivePart {
  public required init(_ makers: LiveMakers) {}
  /// The generation begins to serve.
  open func open() {}
  /// About each second. `now`: milliseconds of the loop's clock.
  open func tick(now: UInt64) {}
  /// Log files are reopened, or the process ends: what waits to be written is handed over.
  open func flush() {}
  /// The groups of servers that it has, whose idle connections may be ended for others.
  open var groups: [UpstreamGroup] { [] }
  /// A location shows metrics: the groups take what counts their attempts.
  open func meter(_ meters: GroupMeters) {}
  /// Samples the gauges of the groups. About each second.
  open func sample() {}
  /// No new exchange begins in the generation.
  open func close() {}
}

/// The parts of all features in one worker's generation, found by their types. A part is made when somebody asks for it
/// first, or when the generation is complete.
package final class LiveParts {
  private var parts: [ObjectIdentifier: LivePart] = [:]
  package private(set) var all: [LivePart] = []

  package func part<Part: LivePart>(_ kind: Part.Type, _ makers: LiveMakers) -> Part {
    if let known = parts[ObjectIdentifier(kind)] as? Part { return known }
    let fresh = kind.init(makers)
    parts[ObjectIdentifier(kind)] = fresh
    all.append(fresh)
    return fresh
  }

  /// nil: no feature has asked for the part while locations were compiled.
  package subscript<Part: LivePart>(_ kind: Part.Type) -> Part? { parts[ObjectIdentifier(kind)] as? Part }
}

extension LiveMakers {
  /// What a feature keeps in this generation.
  package subscript<Part: LivePart>(_ kind: Part.Type) -> Part { parts.part(kind, self) }
}

extension LiveGeneration {
  /// What a feature keeps in this generation; nil: nobody asked for it while locations were compiled.
  package subscript<Part: LivePart>(_ kind: Part.Type) -> Part? { parts[kind] }
}
