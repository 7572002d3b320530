import Crypto
import Observability

/// What is to be said of a revocation list's age: to who checks a configuration, and in the log.
struct RevocationNotice {
  enum Age: Sendable, Hashable {
    case valid
    /// Its end is near.
    case ending
    /// Everybody of its CA is refused.
    case ended
  }

  static func age(of list: RevocationList, now: Int64) -> Age {
    if list.isExpired(at: now) { return .ended }
    return now >= list.warnsFrom ? .ending : .valid
  }

  /// nil for a list of which nothing is to be said. It never stops a start: the daemon must come up to say so.
  static func diagnostic(_ list: RevocationList, in file: MaterialReference, now: Int64) -> Diagnostic? {
    switch age(of: list, now: now) {
    case .valid: nil
    case .ending:
      Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) ends on \(list.nextUpdateText)",
        hint: "from then on everybody of this CA is refused: put a new list in its place")
    case .ended:
      Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) ended on \(list.nextUpdateText): everybody of this CA is refused",
        hint: "put a new list in its place; it is taken up without a restart")
    }
  }

  static func all(_ lists: [RevocationList], in file: MaterialReference, now: Int64) -> [Diagnostic] {
    // Beside a valid one of the same CA an ended list refuses nobody.
    let valid = lists.filter { !$0.isExpired(at: now) }
    return lists.compactMap { list in
      guard let diagnostic = diagnostic(list, in: file, now: now) else { return nil }
      guard list.isExpired(at: now), let other = valid.first(where: { $0.isOfIssuer(of: list) }) else {
        return diagnostic
      }
      return Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) ended on \(list.nextUpdateText): the one before, which is valid until \(other.nextUpdateText), stays in use",
        hint: "put a new list in its place")
    }
  }
}
