import Synchronization

/// What goes on being wrong in the process, for somebody who looks later than the log's line: for `health`, the status page
/// and the metrics.
///
/// A fault has a kind and a name, and stays until whoever noted it says that it is over. The names come from the
/// configuration or from this program, never from a client.
package final class OngoingFaults: Sendable {
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    /// The register of an authority can't be asked, so nobody here knows what other machines revoke.
    case register
    /// The revocation list of an authority of `enrolment` can't be renewed.
    case upkeep
    /// What the API changed is not in its file.
    case state
    /// There is no OCSP response to send with a certificate.
    case staple
    /// A record of clients is not written.
    case record
    /// A process that works for this one has ended.
    case helper
    /// A log loses lines.
    case log
  }

  package struct Fault: Sendable, Hashable {
    package let kind: Kind
    package let name: String
    package let words: String
    /// It keeps clients out now.
    package var isFatal = false
  }

  private struct State: Sendable {
    var faults: [Kind: [String: Fault]] = [:]
    /// By kind: the names that the configuration has. A kind without them takes every name.
    var names: [Kind: Set<String>] = [:]
  }

  private let all = Mutex(State())

  package init() {}

  /// `words`: what is wrong, as a whole sentence without its end; nil: nothing any more. `isFatal`: it keeps clients out. Returns whether there was no such
  /// fault before. A name that the configuration has no more is not taken: work on it may end after the reload that removed
  /// it.
  @discardableResult
  package func note(_ kind: Kind, _ name: String, _ words: String?, isFatal: Bool = false) -> Bool {
    all.withLock { all in
      guard all.names[kind]?.contains(name) ?? true else { return false }
      let former = all.faults[kind]?[name]
      all.faults[kind, default: [:]][name] = words.map { Fault(kind: kind, name: name, words: $0, isFatal: isFatal) }
      return former == nil && words != nil
    }
  }

  /// Replaces all faults of a kind. `faults`: by name.
  package func set(_ kind: Kind, _ faults: [String: String]) {
    all.withLock { all in
      all.faults[kind] = faults.reduce(into: [String: Fault]()) { found, fault in
        found[fault.key] = Fault(kind: kind, name: fault.key, words: fault.value)
      }
    }
  }

  /// From now on, a kind has faults of these names only, which are those of the configuration.
  package func keep(_ kind: Kind, only names: Set<String>) {
    all.withLock { all in
      all.names[kind] = names
      all.faults[kind] = all.faults[kind]?.filter { names.contains($0.key) }
    }
  }

  /// In the order of kinds and names.
  package var current: [Fault] {
    let all = all.withLock { $0.faults }
    return Kind.allCases.flatMap { kind in (all[kind] ?? [:]).values.sorted { $0.name < $1.name } }
  }
}
