import Synchronization

/// What a feature keeps over generations, for all threads: counts, a sender, a memory of what was refused. It must bound its
/// size, and must be safe to use from any thread.
package protocol SharedPart: AnyObject, Sendable {
  /// Makes an empty part. It may be made twice at once, and one of both dropped, so it must begin nothing.
  init(_ shared: SharedState)
  /// The workers serve this generation from now on. Called on the main thread, at the start and after each reload.
  func serve(_ generation: Generation)
  /// The API has changed something. `words`: what. `who`: whom it was asked by.
  func apiDidChange(_ words: String, by who: String)
  /// The process ends. May wait for a second.
  func close()
}

extension SharedPart {
  package func serve(_ generation: Generation) {}
  package func apiDidChange(_ words: String, by who: String) {}
  package func close() {}
}

/// The parts of all features, found by their types.
package final class SharedParts: Sendable {
  private let parts = Mutex<[ObjectIdentifier: any SharedPart]>([:])

  /// The feature's part, which is made when somebody asks for it first. Takes a lock: not for each request.
  package func part<Part: SharedPart>(_ kind: Part.Type, _ shared: SharedState) -> Part {
    if let known = parts.withLock({ $0[ObjectIdentifier(kind)] }) as? Part { return known }
    // Outside the lock, since a part may ask for another one.
    let fresh = Part(shared)
    return parts.withLock { parts in
      if let known = parts[ObjectIdentifier(kind)] as? Part { return known }
      parts[ObjectIdentifier(kind)] = fresh
      return fresh
    }
  }

  package var all: [any SharedPart] { parts.withLock { Array($0.values) } }
}

extension SharedState {
  /// What a feature keeps over generations.
  package subscript<Part: SharedPart>(_ kind: Part.Type) -> Part { parts.part(kind, self) }

  /// The workers serve this generation from now on.
  package func serve(_ generation: Generation) {
    for kind in features.all.flatMap({ $0.sharedParts }) { make(kind) }
    for part in parts.all { part.serve(generation) }
  }

  private func make<Part: SharedPart>(_ kind: Part.Type) { _ = parts.part(kind, self) }

  /// The API has changed something.
  package func apiDidChange(_ words: String, by who: String) {
    for part in parts.all { part.apiDidChange(words, by: who) }
  }

  /// The process ends, after the last request.
  package func close() { for part in parts.all { part.close() } }
}
