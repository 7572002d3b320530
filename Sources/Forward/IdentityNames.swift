package import Identity
package import Traffic
package import Upstream

/// The names of the fields by which server blocks tell upstreams who their client is: those of `client_identity`, and each
/// that a `proxy_set_header` fills from a `$ssl_…` variable, also by way of `set`. A variable that the configuration defines
/// under such a name counts, whatever its value comes from. So does `$remote_user` in a server block with `auth_basic`.
///
/// An upstream believes such a field whoever wrote it. So a name is removed from clients' requests in two places:
/// - in the whole server block that sets it, because a location with its own `proxy_set_header` inherits none;
/// - in each other server block, wherever its requests can reach an upstream that the field is for.
/// A `proxy_set_header` of the other block says the field anew, as everywhere.
package struct IdentityNames {
  /// By index in `HTTPSettings.servers`.
  private var ofServers: [[[UInt8]]] = []
  /// By the address of an upstream server.
  private var told: [UpstreamAddress: [[UInt8]]] = [:]
  /// Those that may go to any upstream: variables name it.
  private var toldAnywhere: [[UInt8]] = []
  private var all: [[UInt8]] = []
  private var byPass: [ObjectIdentifier: [[UInt8]]] = [:]
  private let reaches: UpstreamReaches

  package init(_ http: HTTPSettings, _ groups: [ResolvedGroup]) {
    reaches = UpstreamReaches(http, groups)
    let ssl = Set(http.slotNames.filter { $0.value.hasPrefix("ssl_") }.keys)
    for server in http.servers {
      var ofServer: [[UInt8]] = []
      for (pass, names) in Self.told(by: server.root, http.computed, ssl) {
        ofServer += names
        byPass[ObjectIdentifier(pass)] = Self.distinct(names)
        switch reaches.reach(of: pass) {
        case .any: toldAnywhere += names
        case .servers(let addresses): for address in addresses { told[address, default: []] += names }
        }
      }
      ofServers.append(Self.distinct(ofServer))
    }
    all = Self.distinct(ofServers.flatMap { $0 })
  }

  /// The names that the requests of a location's clients may not bring to its upstream.
  package func names(inServer index: Int, to pass: UpstreamPass) -> [[UInt8]] {
    if all.isEmpty { return [] }
    let own = ofServers.indices.contains(index) ? ofServers[index] : []
    return Self.distinct(own + names(toldTo: reaches.reach(of: pass)))
  }

  /// The names by which requests of one `proxy_pass` tell their upstream who the client is.
  package func names(toldBy pass: UpstreamPass) -> [[UInt8]] { byPass[ObjectIdentifier(pass)] ?? [] }

  /// The names by which any server block tells these upstream servers who a client is.
  package func names(toldTo reach: UpstreamReach) -> [[UInt8]] {
    switch reach {
    case .any: all
    case .servers(let addresses): Self.distinct(toldAnywhere + addresses.flatMap { told[$0] ?? [] })
    }
  }

  private static func distinct(_ names: [[UInt8]]) -> [[UInt8]] {
    var seen: Set<[UInt8]> = []
    return names.filter { seen.insert($0).inserted }
  }

  /// What each `proxy_pass` of a server block tells; nothing of those that tell nothing. `ssl`: the slots of variables that
  /// the configuration names `ssl_…`.
  private static func told(
    by root: LocationSettings, _ computed: [Int: ComputedVariable], _ ssl: Set<Int>
  ) -> [(pass: UpstreamPass, names: [[UInt8]])] {
    let locations = root.withNested
    let passes = locations.compactMap { $0[UpstreamPass.self] }
    guard
      passes.contains(where: {
        $0.clientIdentity != .off || !$0.request.fields.isEmpty || $0.parts.contains { !$0.toldFields.isEmpty }
      })
    else { return [] }
    let asks = locations.contains { $0.features.contains(where: \.asksPasswords) }
    let slots = slots(in: locations, computed, from: ssl, asksPasswords: asks)
    return passes.compactMap { pass in
      var names = pass.clientIdentity == .off ? [] : IdentityFieldForm.names.map { Array($0.utf8) }
      names += pass.request.fields.filter { $0.candidates.contains(where: slots.sayClient) }.map(\.name)
      names += pass.parts.flatMap(\.toldFields).filter { slots.sayClient($0.value) }.map(\.name)
      return names.isEmpty ? nil : (pass, names)
    }
  }

  /// The variables of a server block that say who the client is.
  private struct Slots {
    var found: Set<Int>
    /// Whether `$remote_user` is somebody whose password was asked for.
    let asksPasswords: Bool

    func sayClient(_ template: Template) -> Bool {
      template.uses {
        switch $0 {
        case .feature(let variable): variable.saysClient
        case .simple(.remote_user): asksPasswords
        case .simple(let variable): variable.rawValue.hasPrefix("ssl_")
        case .slot(let slot), .settable(let slot, _): found.contains(slot)
        case .capture, .escapedCapture: found.contains(positional)
        default: false
        }
      }
    }
  }

  /// The slot for what is captured by position: `$1`.
  private static let positional = -1

  /// The slots whose values come from `$ssl_…` variables, directly or through another slot: by `set`, by the captures of
  /// an `if`, or by `map`, `geo` and `split_clients`. `found`: those that are known to be such.
  private static func slots(
    in locations: [LocationSettings], _ computed: [Int: ComputedVariable], from ssl: Set<Int>, asksPasswords: Bool
  ) -> Slots {
    var slots = Slots(found: ssl, asksPasswords: asksPasswords)
    let features = locations.flatMap(\.features)
    for feature in features { slots.found.formUnion(feature.toldSlots) }
    let assignments = features.flatMap(\.assignments)
    var count: Int
    repeat {
      count = slots.found.count
      for assignment in assignments where slots.sayClient(assignment.value) {
        if assignment.setsCaptures { slots.found.insert(positional) }
        slots.found.formUnion(assignment.slots)
      }
      for (slot, variable) in computed {
        let settings = variable.settings
        if let text = settings.decidingText, slots.sayClient(text) {
          slots.found.insert(slot)
          if !settings.patterns.isEmpty { slots.found.insert(positional) }
          slots.found.formUnion(settings.patterns.flatMap { $0.captures.map(\.slot) })
        }
        if settings.possibleValues?.contains(where: { slots.sayClient($0) }) == true { slots.found.insert(slot) }
      }
    } while slots.found.count > count
    return slots
  }
}

extension UpstreamPass {
  /// How the upstream is told who the client is.
  package var clientIdentity: IdentityFieldForm { self[IdentityFieldForm.self] ?? .off }
}
