import Forward
package import Language
import Observability
package import Traffic

/// allow and deny (nginx: ngx_http_access_module): which addresses clients may have.
///
/// The folder is the whole feature: the directives and what they set here, what happens to a request in `AddressAccess`,
/// and `SatisfyAny`, which decides how the steps of the access phase count together.
package struct Access: LocationFeature {
  /// In the order of the file. The first that matches decides.
  package var rules: [AccessRule]

  // MARK: Directives

  package static let chapter = Chapter.http
  package static let kinds: Set<TrafficKind> = [.http, .stream]
  private static let levels = DirectiveContexts.everyHTTP

  private static let allow = DirectiveEntry.list(
    "allow", levels.union(.limitExcept).union(.everyStream), .words(1...1, "ADDRESS | CIDR | unix: | all"), "",
    "Allows clients with these addresses.", example: "allow 10.0.0.0/8;", trust: .told)
  private static let deny = DirectiveEntry.list(
    "deny", levels.union(.limitExcept).union(.everyStream), .words(1...1, "ADDRESS | CIDR | unix: | all"), "",
    "Denies clients with these addresses.", example: "deny all;", trust: .told)

  package static let directives = [allow, deny]

  /// Both make one list.
  private static func lines(_ scope: Scope) -> [Directive] { scope.list(allow.name, deny.name) }

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Access? {
    let rules = lines(level.scope).compactMap { line in
      source(line, &builder).map { AccessRule(allows: line.name == allow.name, source: $0, location: line.location) }
    }
    return rules.isEmpty ? nil : Access(rules: rules)
  }

  private static func source(_ line: Directive, _ builder: inout SettingsBuilder) -> AccessRule.Source? {
    let text = line.text(0)
    if text == "all" { return .all }
    if text == "unix:" { return .unix }
    guard let (source, hasHostBits) = AccessRule.Source.parse(text) else {
      builder.error(
        line.place(0), "invalid parameter \"\(text)\"", hint: "an IP address, ADDRESS/BITS, unix: or all; no names")
      return nil
    }
    if hasHostBits {
      builder.warning(
        line.place(0), "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
    }
    return source
  }

  /// Without a `deny`, nobody is kept out. With `satisfy any` and a password, an address that no line names still needs the
  /// password.
  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let scope = level.scope, lines = lines(scope)
    guard let last = lines.last, scope.own(allow.name).contains(where: { $0.location == last.location }),
      lines.allSatisfy({ $0.name == allow.name && $0.text(0) != "all" && !$0.text(0).hasSuffix("/0") }),
      !scope.isInternal
    else { return }
    let others = builder.features.ofHTTPLocation.compactMap { $0.guardingLine(scope) }
    if SatisfyAny.isOn(scope), !others.isEmpty { return }
    builder.warning(
      last.location, "\"allow\" without \"deny\" keeps nobody out: every other address gets in, too",
      hint: "write \"deny all;\" after it")
  }

  /// Every address is allowed by name, and none denied before it. With `satisfy any` no password is asked for then.
  package static func admitsEverybody(_ scope: Scope) -> Bool {
    SatisfyAny.isOn(scope) && lines(scope).first { $0.name == deny.name || $0.text(0) == "all" }?.name == allow.name
  }

  /// Whether the address decides who gets in at a level, not only that nobody or everybody does.
  static func decides(_ scope: Scope) -> Bool { lines(scope).contains { $0.text(0) != "all" } }

  package static func refuses(_ scope: Scope) -> Bool { deny.ownLine(in: scope) != nil }

  // MARK: Effect

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.add(access: AddressAccess(rules))
  }

  package var openingPolicy: [(label: String, text: String)] {
    [("addresses", rules.map(\.asWritten).joined(separator: ", "))]
  }

  package static func guardingLine(_ scope: Scope) -> GuardingLine? {
    let lines = lines(scope)
    // What stands behind `allow all` never counts.
    let counting = lines.prefix { $0.text(0) != "all" } + lines.filter { $0.text(0) == "all" }.prefix(1)
    return counting.first { $0.name == deny.name }.map {
      GuardingLine($0, act: "is judged", remedy: "allow all;", refuses: true)
    }
  }

  package static func fixedResponse(_ scope: Scope) -> FixedResponse? {
    guard let first = lines(scope).first, first.name == deny.name, first.text(0) == "all" else { return nil }
    return SatisfyAny.isOn(scope) ? nil : .refusal
  }

  package var entryRule: EntryRule? {
    EntryRule(
      text: rules.map(\.asWritten).joined(separator: ", "), effect: rules.contains { !$0.allows } ? .judges : .none)
  }

  package var ways: LocationWays {
    // What stands behind a rule for all never counts.
    let counting = rules.prefix { $0.source != .all } + rules.filter { $0.source == .all }.prefix(1)
    guard let last = counting.last else { return LocationWays() }
    let refusesOthers = last.source == .all && !last.allows
    return LocationWays(conditions: [
      condition(!refusesOthers ? .form : counting.contains(where: \.allows) ? .address : .closed)
    ])
  }

  private func condition(_ kind: AccessCondition.Kind) -> AccessCondition {
    let article = rules.first.map { $0.source == .all && $0.allows } == true ? "any" : "an"
    let words = "\(article) address by \(rules.map(\.asWritten).joined(separator: ", "))"
    let examples = rules.filter(\.allows).compactMap { $0.source.first.map { AccessCondition.Example.address($0) } }
    return AccessCondition(kind, .access, words, at: rules.first?.location, examples: examples) {
      [rules] trial in
      if let first = rules.first, first.source == .all { return first.allows ? .admits : .refuses }
      guard let address = trial.address else { return .unknown }
      return rules.first(for: address).map { $0.allows ? .admits : .refuses } ?? .silent
    }
  }

  package var guardingDirective: String? { rules.contains { !$0.allows } ? Self.deny.name : nil }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let (old, new) = (old?.rules ?? [], new?.rules ?? [])
    let before = old.map(\.asWritten), after = new.map(\.asWritten)
    if before == after { return }
    if before.sorted() == after.sorted() {
      return found.other("allow and deny come in another order: \(after.joined(separator: ", "))")
    }
    func sources(_ rules: [AccessRule], _ allows: Bool) -> Set<String> {
      Set(rules.filter { $0.allows == allows }.map { $0.source == .all ? "all other addresses" : $0.source.asWritten })
    }
    found.set(sources(old, true), sources(new, true)) {
      "clients from \($0) are allowed"
    } removed: {
      "clients from \($0) are no longer allowed"
    }
    found.guards(sources(old, false), sources(new, false)) {
      "clients from \($0) are denied"
    } removed: {
      "clients from \($0) are no longer denied"
    }
  }
}

/// `satisfy any`: one step of the access phase that admits the client is enough. Without it, all must.
struct SatisfyAny: LocationFeature {
  static let chapter = Chapter.rewrite

  private static let row = DirectiveEntry.value(
    "satisfy", .everyHTTP, .oneOf(["all", "any"]), "all",
    "Whether `allow`, `deny` and `auth_basic` must all admit a client, or one is enough. `ssl_client_allow` and `ssl_client_deny` apply in any case.",
    example: "satisfy any;", trust: .told)

  static let directives = [row]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> SatisfyAny? {
    isOn(level.scope) ? SatisfyAny() : nil
  }

  static func isOn(_ scope: Scope) -> Bool { row.text(in: scope)?.lowercased() == "any" }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.steps.satisfy = .any }

  var entryRule: EntryRule? { EntryRule(text: "satisfy any", effect: .none) }

  var ways: LocationWays {
    var ways = LocationWays()
    ways.oneIsEnough = true
    return ways
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    found.flag(
      old != nil, new != nil, opens: "an address or a password is enough (satisfy any)",
      closes: "both the address and the password must be right (satisfy all)")
  }
}
