import Crypto
package import Features
import Identity
import Loading
import Observability
import Patterns
import SPIFFE
import TLS
import Traffic

/// `sallyport check --clients`: whom of a record a configuration would let in, now or at a date, by this machine's OpenSSL.
///
/// Each chain is judged where it came, by the server block that its name leads to in this configuration, with the code of
/// a handshake (`ClientJudge`). Nobody proves a key, and no responder of OCSP is asked.
package struct ClientForecast: Sendable {
  /// What becomes of a client at one place.
  enum Verdict: Sendable, Equatable {
    /// `until`: when it is to be judged again; `.max`: never.
    case letIn(until: Int64)
    case refused(reason: String)
    /// What decides is not at hand.
    case notKnown

    var isLetIn: Bool { if case .letIn = self { true } else { false } }
  }

  /// A client who got in, and what becomes of it.
  private struct Change: Sendable {
    let client: RecordedClient
    let reason: String
  }

  private let count: Int
  private let unreadable: Int
  private let since: Int64?
  private let moment: Int64
  /// Who got in and will be refused.
  private let refused: [Change]
  /// Who was refused and will get in.
  private let admitted: [RecordedClient]
  /// By the first second of a day: who will be refused from then on.
  private let later: [Int64: [Change]]
  /// By the first second of a day: how many will be refused unless a revocation list is renewed.
  private let lists: [Int64: Int]
  /// Who comes only where the SPIFFE agent gives the CAs.
  private let unjudged: Int
  /// By the issuer, a public CA: how many get in whose next certificate will not be for clients.
  private let publicIssuers: [(name: String, count: Int)]
  /// Who gets in, and of whose offer a part is not known.
  private let unknownOffers: Int
  /// Locations whose own rules deny clients who get into their server block, with how many.
  private let denying: [(place: String, count: Int)]

  /// Somebody who got in will be refused.
  package var hasRefused: Bool { !refused.isEmpty }

  /// The configuration of `path`. `moment`: seconds since 1970; nil: now.
  package init(
    _ record: RecordedClients, by path: String, at moment: Int64?, now: Int64
  ) throws(Explanation.Refusal) {
    let shared = SharedState(features: Features.all), trace = ExplainTrace()
    let (generation, _) = try Explanation.load(path, sharing: shared, trace)
    try self.init(record, by: generation, sharing: shared, trace, at: moment, now: now)
  }

  init(
    _ record: RecordedClients, by generation: Generation, sharing shared: SharedState, _ trace: ExplainTrace,
    at moment: Int64?, now: Int64, publicAnchors: TrustAnchors? = try? TrustAnchors.system.get()
  ) throws(Explanation.Refusal) {
    let stage: RequestExplanation.Stage
    do throws(RequestExplanation.Refusal) {
      stage = try RequestExplanation.Stage(generation, sharing: shared, trace)
    } catch { throw Explanation.Refusal("the configuration can't be tried: \(error)") }
    let (clients, unreadable) = RecordedClient.all(of: record)
    var judge = PlacedJudge(stage.live, renewsLists: moment != nil)
    let moment = moment ?? now
    var refused: [Change] = [], admitted: [RecordedClient] = [], later: [Int64: [Change]] = [:],
      lists: [Int64: Int] = [:], unknownOffers = 0, unjudged = 0, publicIssuers: [String: Int] = [:]
    for client in clients {
      let wasLetIn = client.isLetIn
      // Where it was let in, and where it was refused if it was nowhere.
      let visits = client.visits.filter { $0.visit.verdict.isLetIn == wasLetIn }
      var objection: String?, isJudged = false, end: (at: Int64, reason: String)?, listEnd: Int64?
      for (key, visit) in visits {
        switch judge.judge(client, key, visit, at: moment) {
        case .notKnown: break
        case .refused(let reason):
          isJudged = true
          if objection == nil { objection = reason }
        case .letIn(let until):
          isJudged = true
          let course = judge.follow(client, key, visit, from: until)
          if let found = course.end, found.at < end?.at ?? .max { end = found }
          if let found = course.list { listEnd = min(listEnd ?? .max, found) }
          if wasLetIn { judge.note(client, key, at: moment) }
        }
      }
      if !isJudged {
        unjudged += 1
      } else if wasLetIn, let objection {
        refused.append(Change(client: client, reason: objection))
      } else if !wasLetIn, objection == nil {
        admitted.append(client)
      } else if wasLetIn {
        if visits.contains(where: { judge.isOfferUnknown($0.key, $0.visit) }) { unknownOffers += 1 }
        if visits.contains(where: { judge.asksForPurpose($0.key) }), client.leaf.namesClients,
          publicAnchors?.vouch(for: client.certificates, at: client.last) == true
        {
          publicIssuers[client.leaf.issuer.rfc2253, default: 0] += 1
        }
        if let end { later[Self.day(end.at), default: []].append(Change(client: client, reason: end.reason)) }
        if let listEnd { lists[Self.day(listEnd), default: 0] += 1 }
      }
    }
    (self.count, self.unreadable, self.moment) = (clients.count, unreadable, moment)
    since = clients.map(\.first).min()
    (self.refused, self.admitted, self.later, self.lists) = (refused, admitted, later, lists)
    (self.unknownOffers, self.unjudged) = (unknownOffers, unjudged)
    self.publicIssuers = publicIssuers.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
    denying = judge.denying.sorted { $0.key < $1.key }.map { (place: $0.key, count: $0.value) }
  }

  private static func day(_ moment: Int64) -> Int64 { moment - moment % 86_400 }

  // MARK: For tests

  /// The names of those who got in and will be refused, each with the reason.
  var refusals: [(name: String, reason: String)] { refused.map { ($0.client.name, $0.reason) } }
  /// The same from a day on.
  var laterRefusals: [Int64: [String]] { later.mapValues { $0.map(\.client.name) } }
  var newlyAdmitted: [String] { admitted.map(\.name) }
  var endingLists: [Int64: Int] { lists }

  // MARK: Words

  private func summary(_ groups: [(reason: String, some: [Change])]) -> String {
    groups.map { "\($0.some.count) \($0.reason)" }.joined(separator: "; ")
  }

  /// By the reason, the most frequent first.
  private func groups(_ changes: [Change]) -> [(reason: String, some: [Change])] {
    Dictionary(grouping: changes, by: \.reason).map { (reason: $0.key, some: $0.value) }
      .sorted { ($1.some.count, $0.reason) < ($0.some.count, $1.reason) }
  }

  private func tell(_ changes: [Change], _ lines: inout [String]) {
    for (reason, some) in groups(changes) {
      lines.append("  \(some.count)  \(reason)")
      lines += some.map { "      \($0.client.words)" }
    }
  }

  package var lines: [String] {
    let span = since.map { " that came since \(Day.text($0))" } ?? ""
    let when = "at \(Day.text(moment))"
    var lines = [
      "\(refused.count) of \(count.of("client"))\(span) will be refused \(when)\(refused.isEmpty ? "" : ": ")"
        + summary(groups(refused))
    ]
    tell(refused, &lines)
    for (day, changes) in later.sorted(by: { $0.key < $1.key }) {
      lines.append("\(changes.count) more from \(Day.text(day)): \(summary(groups(changes)))")
      tell(changes, &lines)
    }
    for (day, count) in lists.sorted(by: { $0.key < $1.key }) {
      lines.append(
        "\(count.of("client")) will be refused from \(Day.text(day)) on, unless the revocation list that ends then is renewed"
      )
    }
    for (place, count) in denying {
      lines.append(
        "\(count) of those who get in \(count == 1 ? "is" : "are") denied by the rules of location \(place)")
    }
    if !admitted.isEmpty {
      lines.append("\(admitted.count.of("client that was", "clients that were")) refused will get in:")
      lines += admitted.map { "      \($0.words)" }
    }
    for (issuer, count) in publicIssuers {
      let one = count == 1
      lines.append(
        "\(count) of those who get in \(one ? "has a certificate" : "have certificates") of a public CA, \(issuer): public CAs leave out clientAuth from 15 March 2027 on, so \(one ? "its" : "their") next \(one ? "certificate" : "ones") will be refused"
      )
    }
    if unjudged > 0 {
      lines.append(
        "\(unjudged.of("more is", "more are")) not judged: the SPIFFE agent gives the CAs of the server blocks where clients with an SVID come, and nobody asks it here"
      )
    }
    if unknownOffers > 0 {
      lines.append(
        "\(unknownOffers) of those who get in: not known whether the server has a group, a signature algorithm and a cipher suite for \(unknownOffers == 1 ? "it" : "them")"
      )
    }
    if unreadable > 0 {
      lines.append("\(unreadable.of("more has", "more have")) certificates that this OpenSSL can't read")
    }
    return lines.map { LogEscape.visible($0) }
  }

  /// One object. Names never change; new ones may be added.
  package var json: String {
    func append(_ change: Change, _ json: inout JSONText) {
      json.object { json in
        change.client.append(to: &json)
        json.member("reason", change.reason)
      }
    }
    var json = JSONText()
    json.object { json in
      json.member("clients", count)
      json.member("unreadable", unreadable)
      json.member("unknown_offers", unknownOffers)
      json.member("unjudged", unjudged)
      json.member("since", since)
      json.member("at", moment)
      json.array("refused", refused, append)
      json.array("later", later.sorted { $0.key < $1.key }) { day, json in
        json.object { json in
          json.member("from", day.key)
          json.array("refused", day.value, append)
        }
      }
      json.array("lists", lists.sorted { $0.key < $1.key }) { list, json in
        json.object { json in
          json.member("end", list.key)
          json.member("clients", list.value)
        }
      }
      json.array("locations", denying) { location, json in
        json.object { json in
          json.member("location", location.place)
          json.member("denied", location.count)
        }
      }
      json.array("public", publicIssuers) { issuer, json in
        json.object { json in
          json.member("issuer", issuer.name)
          json.member("clients", issuer.count)
        }
      }
      json.array("admitted", admitted) { client, json in json.object { client.append(to: &$0) } }
    }
    return json.text
  }
}

/// Judges clients of a record where they came, by a generation.
private struct PlacedJudge {
  private let live: LiveGeneration
  private let renewsLists: Bool
  private let scratch = RegularExpression.Scratch()
  private let offers = OfferTrials()
  /// By the location: how many clients its own rules deny.
  private(set) var denying: [String: Int] = [:]

  /// Judgements that one client is followed by, and seconds.
  private static let mostSteps = 32
  private static let farthest: Int64 = 3 * 366 * 86_400

  /// `renewsLists`: lists that have ended by the time of a judgement count as renewed.
  init(_ live: LiveGeneration, renewsLists: Bool) {
    self.live = live
    self.renewsLists = renewsLists
  }

  /// Why nobody judges a client where it came.
  private struct Unplaced: Error { let reason: String }

  /// What decides on a client where it came: at its listener, or else at one with its port or its name.
  private func place(
    _ key: RecordedVisit.Key
  ) throws(Unplaced) -> (listener: VirtualServers, context: ServerTLSContext) {
    let isRelayed = !key.front.isEmpty, name = Array(key.name.utf8)
    let some = live.listeners.filter {
      (isRelayed || $0.settings.isTLS) && ($0.settings.kind == .stream) == key.isStream
    }
    func port(_ address: String) -> Substring { address[(address.lastIndex(of: ":") ?? address.startIndex)...] }
    let own = some.first { $0.settings.address.description == key.listener }
    let near = own ?? some.first { port($0.settings.address.description) == port(key.listener) }
    guard let listener = near ?? some.first(where: { $0.has(name) }) else {
      throw Unplaced(
        reason: "no listener takes connections to \(key.listener)\(key.name.isEmpty ? "" : " for \(key.name)")")
    }
    let server: LiveServer? =
      switch listener.find(name) {
      case .found(let found): found.server
      case .default: listener.fallback
      case .undecided: nil
      }
    if isRelayed, let server, server.relayedClientStep == nil {
      throw Unplaced(reason: "the server block of \"\(key.name)\" takes no front's word (the front was \(key.front))")
    }
    guard let context = isRelayed ? server?.context : listener.choose(name) else {
      throw Unplaced(reason: "no server block can be chosen for \"\(key.name)\"")
    }
    return (listener, context)
  }

  func judge(
    _ client: RecordedClient, _ key: RecordedVisit.Key, _ visit: RecordedVisit, at moment: Int64,
    renewingLists: Bool? = nil
  ) -> ClientForecast.Verdict {
    let listener: VirtualServers, context: ServerTLSContext
    do throws(Unplaced) { (listener, context) = try place(key) } catch { return .refused(reason: error.reason) }
    if key.front.isEmpty, let verdict = judge(handshake: visit.handshake, of: client, context, key) { return verdict }
    // As a request with the field: a listener has no word before the server block is known.
    let chooser = key.front.isEmpty ? listener : nil
    let judgement = context.judge(
      recorded: client.certificates, at: moment, by: chooser, renewsLists: renewingLists ?? renewsLists)
    if let denial = judgement.denial { return .refused(reason: Self.ruled(denial)) }
    switch Admission(of: judgement.verdict, by: context) {
    case .refused(_, _, let reason):
      guard case .refused(let leaf, let code, let words, _) = judgement.verdict else { return .refused(reason: reason) }
      let meaning = OpenSSLMeaning.of(verification: code).map { ": \($0)" } ?? ""
      return .refused(
        reason: "\(words)\(meaning)\(leaf.allowsClients ? "" : " (its extended key usage lacks clientAuth)")")
    case .undecided, .inClear: return .refused(reason: "nobody has judged it")
    case .reported, .granted: break
    }
    if let denial = listener.denial(of: judgement.client, by: context) { return .refused(reason: Self.ruled(denial)) }
    return .letIn(until: judgement.validUntil)
  }

  private static func ruled(_ denial: String) -> String { "denied by a rule: \(denial)" }

  /// What a handshake decides before it looks at certificates; nil: it looks at them.
  private func judge(
    handshake: RecordedHandshake, of client: RecordedClient, _ context: ServerTLSContext, _ key: RecordedVisit.Key
  ) -> ClientForecast.Verdict? {
    guard !context.settings.rejectsHandshake else {
      return .refused(reason: "the server block of \"\(key.name)\" rejects handshakes (ssl_reject_handshake)")
    }
    // Who has settled on less than TLS 1.3 has offered no more, if the server had it.
    guard context.takes(version: handshake.version) else {
      return .refused(reason: "it spoke \(handshake.version), which ssl_protocols leaves out")
    }
    // Without an agent's bundles, it is certain only that nobody gets in who has no SVID.
    if context.settings.workloadTrust != nil, context.authorities.isEmpty, (try? SVIDRule.id(of: client.leaf)) != nil {
      return .notKnown
    }
    return offers.trial(of: context)?.fault(of: handshake.offer, key: client.leaf.keyKind)
      .map { .refused(reason: "\($0)") }
  }

  /// Follows a client that gets in until it is refused. `list`: when the first list ends that it would need to be renewed.
  func follow(
    _ client: RecordedClient, _ key: RecordedVisit.Key, _ visit: RecordedVisit, from start: Int64
  ) -> (end: (at: Int64, reason: String)?, list: Int64?) {
    var list: Int64?, next = start
    for _ in 0..<Self.mostSteps {
      guard next < start.addingReportingOverflow(Self.farthest).partialValue, next != .max else { break }
      let here = next
      switch judge(client, key, visit, at: here, renewingLists: true) {
      case .refused(let reason): return ((here, reason), list)
      case .notKnown: return (nil, list)
      case .letIn(let until):
        if list == nil, !judge(client, key, visit, at: here, renewingLists: false).isLetIn { list = here }
        guard until > here else { return (nil, list) }
        next = until
      }
    }
    return (nil, list)
  }

  /// A certificate that is not for clients is refused where the client came.
  func asksForPurpose(_ key: RecordedVisit.Key) -> Bool {
    (try? place(key))?.context.settings.clientPurpose == .client
  }

  /// Not all that the client offered is in the record, or can be tried.
  func isOfferUnknown(_ key: RecordedVisit.Key, _ visit: RecordedVisit) -> Bool {
    guard key.front.isEmpty, let context = (try? place(key))?.context else { return false }
    return !visit.handshake.offer.isWhole || offers.trial(of: context) == nil
  }

  /// Counts the locations whose own rules deny a client that gets into their server block.
  mutating func note(_ client: RecordedClient, _ key: RecordedVisit.Key, at moment: Int64) {
    guard let (listener, context) = try? place(key), let server = listener.server(of: context) else { return }
    let root = server.settings.root.clientRules
    var identity: ClientRules.Client?
    server.settings.root.visitNested { location in
      guard let rules = location.clientRules, rules !== root else { return }
      let known =
        identity
        ?? ClientRules.Client(
          context.judge(recorded: client.certificates, at: moment, by: listener, renewsLists: renewsLists).client)
      identity = known
      guard case .denied = rules.judge(known, scratch: scratch) else { return }
      denying["\(location.match.asWritten) (\(location.location))", default: 0] += 1
    }
  }
}

/// What tries the offers of clients, for each server block that they come to.
private final class OfferTrials {
  private var known: [ObjectIdentifier: OfferTrial?] = [:]

  /// nil: nothing can be tried before a handshake.
  func trial(of context: ServerTLSContext) -> OfferTrial? {
    if let trial = known[ObjectIdentifier(context)] { return trial }
    let trial = OfferTrial(context)
    known[ObjectIdentifier(context)] = .some(trial)
    return trial
  }
}

extension RecordedHandshake {
  fileprivate var offer: RecordedOffer {
    RecordedOffer(version: version, groups: groups, signatures: signatures, ciphers: ciphers)
  }
}
