/// What differs between the old program and ours.
package struct Comparison: Sendable {
  package enum Kind: String, Sendable, Hashable, CaseIterable {
    /// The conversion must never make one of these.
    case opened = "sallyport lets in whom it refuses"
    case hole = "a hole of its own, which sallyport doesn't have"
    case closed = "sallyport refuses whom it lets in"
    case elsewhere = "another server answers"
    case fields = "the server behind is told something else"
    case newer = "sallyport speaks a newer version of TLS"
    case answers = "the answer is another one"
    /// Both let it in.
    case shared = "both let in what nobody may mean to let in"
  }

  /// What the tryings of a difference have that others don't.
  enum Dimension: String, Hashable, CaseIterable { case certificate, version, name, host, path, server }

  package struct Difference: Sendable {
    package let kind: Kind
    package let door: Door
    package let example: Trying
    package let old: Sight
    package let ours: Sight
    package fileprivate(set) var count: Int
    /// Old lines that make it.
    package let lines: [ConversionNote]
  }

  /// The worst first.
  package private(set) var differences: [Difference] = []
  /// Listeners where the conversion lets nobody in, with the lines that could not be had. Nothing is known of what the old
  /// program does for whom there.
  package private(set) var closed: [(door: Door, lines: [ConversionNote])] = []
  package let count: Int

  package init(
    _ plan: ComparisonPlan, old: [Sight], ours: [Sight], _ converted: Converted, _ trial: Trial,
    telling notes: [ConversionNote]
  ) {
    // The conversion of the old configuration itself, which names no stand-ins.
    let told = Dictionary(grouping: notes, by: \.line)
    func original(_ note: ConversionNote) -> ConversionNote {
      let note = trial.original(note)
      return told[note.line]?.first { $0.outcome == note.outcome } ?? told[note.line]?.first ?? note
    }
    count = plan.tryings.count
    for door in plan.doors where door.isClosed {
      let refused = door.parts.sorted().flatMap { converted.parts[$0] ?? [] }.filter { $0.outcome == .refused }
      closed.append((door, refused.map(original)))
    }
    var places: [Key: Int] = [:]
    let indices = Dictionary(plan.tryings.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    for (index, trying) in plan.tryings.enumerated() where old.indices.contains(index) && ours.indices.contains(index) {
      let door = plan.doors[trying.door]
      guard var kind = Self.kind(trying, door, old[index], ours[index]) else { continue }
      // A server without TLS shows nothing, whoever it is.
      if kind == .shared, !trying.shown.isBad, case .reached(let target, _) = old[index],
        trial.standIns.targets.indices.contains(target), trial.standIns.targets[target].handshake == nil
      {
        continue
      }
      let base = ComparisonPlan.base(door, trying.door)
      let causes = Self.causes(trying, base) { other in
        indices[other].map { Self.kind(other, door, old[$0], ours[$0]) == kind } ?? true
      }
      // A version alone is no right.
      if kind == .opened, causes == [.version], trying.version == .tls13 { kind = .newer }
      let key = Key(
        kind: kind, door: trying.door, old: Self.short(old[index]), ours: Self.short(ours[index]),
        values: causes.filter(kind.tells).map { Self.value(trying, $0) })
      if let place = places[key] {
        differences[place].count += 1
        continue
      }
      places[key] = differences.count
      let parts = door.parts.sorted().flatMap { converted.parts[$0] ?? [] }
      let lines = ComparisonLines.made(by: causes.isEmpty ? Dimension.allCases : causes, kind, parts).map(original)
      differences.append(
        Difference(
          kind: kind, door: door, example: trying, old: old[index], ours: ours[index], count: 1, lines: lines))
    }
    let order = Dictionary(Kind.allCases.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    differences = differences.enumerated().sorted {
      (order[$0.element.kind] ?? 0, $0.offset) < (order[$1.element.kind] ?? 0, $1.offset)
    }.map(\.element)
  }

  private struct Key: Hashable {
    let kind: Kind
    let door: Int
    let old: String
    let ours: String
    let values: [String]
  }

  /// Refusals of one kind in different words are one.
  private static func short(_ sight: Sight) -> String {
    if case .refused = sight { "refused" } else { "\(sight)" }
  }

  /// nil: nothing differs.
  static func kind(_ trying: Trying, _ door: Door, _ old: Sight, _ ours: Sight) -> Kind? {
    // A path that is written in another way than any rule's gets around one.
    let isBad = trying.shown.isBad || trying.guise != .right || door.isHTTP && !door.paths.contains(trying.path)
    switch (old.isLetIn, ours.isLetIn) {
    case (false, true):
      // nginx wants another connection for another host, even for one of the same server.
      if case .answered(421, _) = old { return .answers }
      return .opened
    case (true, false): return isBad ? .hole : .closed
    case (false, false): return old.isLike(ours) ? nil : .answers
    case (true, true):
      guard case .reached(let target, let fields) = old, case .reached(let other, let told) = ours else { return nil }
      if target != other { return .elsewhere }
      if fields != told {
        let isForged = fields.contains { told[$0.key] != $0.value && $0.value.contains(forged) }
        return isForged ? .hole : .fields
      }
      return trying.shown.isBad || trying.guise != .right ? .shared : nil
    }
  }

  /// The value of fields that a client of a comparison sends, as one that claims to be somebody else would.
  package static let forged = "forged-by-the-client"

  /// What the trying must keep so that the difference stays: `isSame` says whether another trying differs in the same way.
  private static func causes(_ trying: Trying, _ base: Trying, isSame: (Trying) -> Bool) -> [Dimension] {
    Dimension.allCases.filter { dimension in
      var other = trying
      switch dimension {
      case .certificate: other.shown = base.shown
      case .version: other.version = base.version
      case .name: other.serverName = base.serverName
      case .host: other.host = base.host
      case .path: other.path = base.path
      case .server: other.guise = base.guise
      }
      return other != trying && !isSame(other)
    }
  }

  private static func value(_ trying: Trying, _ dimension: Dimension) -> String {
    switch dimension {
    case .certificate: trying.shown.description
    case .version: trying.version.rawValue
    case .name: trying.serverName ?? ""
    case .host: trying.host
    case .path: trying.path
    case .server: trying.guise.rawValue
    }
  }
}

extension Comparison.Kind {
  /// Whether tryings that differ in this are differences of their own.
  fileprivate func tells(_ dimension: Comparison.Dimension) -> Bool {
    switch self {
    case .answers, .newer: false
    case .hole, .shared: dimension == .certificate || dimension == .server
    case .opened, .closed, .elsewhere, .fields: true
    }
  }
}

/// Which old lines make a difference: those whose words are about what the tryings have.
enum ComparisonLines {
  /// Parts of lines of all our peers' languages; behind `^`, their begin.
  private static let words: [Comparison.Dimension: [String]] = [
    .certificate: [
      "^verify", "^requirecert", "^check", "^ca", "^crl", "^bind", "ssl_c_", "^ssl_client", "^ssl_verify", "^ssl_crl",
      "^ssl_trusted", "--allow", "--cacert", "--disable-auth",
    ],
    .version: [
      "^sslversion", "^options", "ssl-min-ver", "ssl-max-ver", "no-tlsv", "force-tlsv", "ssl-default-bind",
      "^ssl_proto",
      "--max-tls",
    ],
    .name: ["^server_name", "^sni", "^bind", "^listen", "^ssl_reject", "^ssl_preread", "ssl_sni"],
    .host: ["^server_name", "hdr(host)", "^default_backend", "^use_backend", "^acl", "^listen"],
    .path: [
      "^location", "path", "^rewrite", "^return", "^if", "^root", "^alias", "^try_files", "^deny", "^http-request",
    ],
    .server: [
      "^proxy_ssl", "^grpc_ssl", "^proxy_pass", "^grpc_pass", "^server ", "^default-server", "^connect", "^verify",
      "^check",
      "^ca", "--target", "--cacert", "--verify", "--override",
    ],
  ]
  private static let ofFields = ["header", "^option forwardfor", "proxy_protocol", "send-proxy"]

  /// At most four, those that did not stay the same first; the head of the part if none is about it.
  static func made(
    by dimensions: [Comparison.Dimension], _ kind: Comparison.Kind, _ notes: [ConversionNote]
  ) -> [ConversionNote] {
    let wanted = kind == .fields ? ofFields : dimensions.flatMap { words[$0] ?? [] }
    var seen: Set<OldLine> = []
    let about = notes.filter { note in
      let text = note.line.text.lowercased()
      return !text.hasSuffix("server { … }")
        && wanted.contains { $0.hasPrefix("^") ? text.hasPrefix($0.dropFirst()) : text.contains($0) }
    }
    // Who is refused now may be so because of any line that can't be had.
    let closing = kind == .closed ? notes.filter { $0.outcome == .refused } : []
    let ordered = closing + about.filter { $0.outcome != .taken } + about.filter { $0.outcome == .taken }
    let found = ordered.filter { seen.insert($0.line).inserted }.prefix(4)
    return found.isEmpty ? Array(notes.prefix(1)) : Array(found)
  }
}
