package import Crypto
import Features
import Forward
import Glibc
import Observability
package import Traffic

/// What to report about a CRL's age, to `sallyport check` and in the log.
package struct RevocationNotice {
  /// The ages of all lists, in an order that doesn't change.
  package static func ages(of material: FormerMaterial, _ notice: ExpiryNotice) -> [ExpiryNotice.ListAge] {
    let now = Int64(time(nil))
    return material.revocations.sorted { "\($0.key)" < "\($1.key)" }.flatMap { _, lists in
      lists.map { $0.age(notice, at: now) }
    }
  }

  /// Returns nil for a CRL with nothing to report. The result is only a warning: the daemon must start to be able to
  /// report.
  private static func diagnostic(
    _ list: RevocationList, in file: MaterialReference, _ notice: ExpiryNotice, now: Int64, isFetched: Bool
  ) -> Diagnostic? {
    switch list.age(notice, at: now) {
    case .begun(.valid): return nil
    case .future:
      return Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) begins on \(list.thisUpdateText) only: until then every certificate of this CA is refused",
        hint: "compare the clocks of this machine and of the CA: timedatectl"
      ).ofOutage
    case .begun(.ending):
      return Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) \(ExpiryWords.ends(list.nextUpdate ?? 0, at: now)), on \(list.nextUpdateText)",
        hint: "from then on every certificate of this CA is refused: "
          + (isFetched ? "its CA must publish a new one there" : "put a new list in its place (`sallyport ca upkeep`)"))
    case .begun(.ended):
      return Diagnostic(
        .warning, at: file.location,
        "\"\(file)\": the revocation list of \(list.issuer) ended on \(list.nextUpdateText): every certificate of this CA is refused",
        hint: isFetched
          ? "its CA must publish a new one there; sallyport asks again and again"
          : "put a new list in its place; sallyport loads it without a restart"
      ).ofOutage
    }
  }

  static func all(
    _ fresh: [RevocationList], keeping kept: [RevocationList], among authorities: [Certificate],
    in file: MaterialReference, _ notice: ExpiryNotice, now: Int64, isFetched: Bool = false
  ) -> [Diagnostic] {
    fresh.compactMap { list in
      guard let other = kept.first(where: { $0.isOfIssuer(of: list) && $0.scope == list.scope }) else {
        return diagnostic(list, in: file, notice, now: now, isFetched: isFetched)
      }
      return diagnostic(list, behind: other, among: authorities, in: file, now: now)
    }
      + fresh.compactMap { list in
        guard let words = list.scope.words else { return nil }
        return Diagnostic(
          .notice, at: file.location, "\"\(file)\": the revocation list of \(list.issuer) covers only \(words)",
          hint: "sallyport refuses a certificate of this CA that no list covers (RFC 5280 §6.3.3)")
      }
  }

  /// Tells of CAs whose lists cover no certificate of a client, or of a server.
  static func gaps(in lists: [RevocationList], at place: SourceLocation?) -> [Diagnostic] {
    var told: Set<String> = []
    return lists.compactMap { list in
      let all = lists.filter { $0.isOfIssuer(of: list) }
      guard all.allSatisfy({ $0.scope.kind == .authorities }), told.insert(list.issuer).inserted else { return nil }
      return Diagnostic(
        .warning, at: place,
        "the revocation list of \(list.issuer) covers only certificates of CAs: every other certificate of this CA is refused",
        hint: "add the CA's list of user certificates to the file")
    }
  }

  /// Says that a CRL doesn't replace the one before, and why.
  private static func diagnostic(
    _ list: RevocationList, behind other: RevocationList, among authorities: [Certificate],
    in file: MaterialReference, now: Int64
  ) -> Diagnostic {
    let fault: String
    var hint = "put a newer list in its place"
    if list.isExpired(at: now) {
      fault = "ended on \(list.nextUpdateText)"
    } else if other.mayOutnumber(list, among: authorities), let number = list.number, let greater = other.number {
      fault = "has the number \(number), and the one before has \(greater)"
      hint = "put the CA's latest list in its place; if the CA counts anew, restart sallyport"
    } else {
      fault = "is older than the one in use, or from the future"
    }
    let end =
      other.isExpired(at: now)
      ? "whom the one before names stays refused"
      : "the one before, valid until \(other.nextUpdateText), stays in use"
    return Diagnostic(
      .warning, at: file.location, "\"\(file)\": the revocation list of \(list.issuer) \(fault): \(end)", hint: hint)
  }
}
