import Identity

/// The names of the fields by which a server tells upstreams who its client is: those of `client_identity`, and each that
/// a `proxy_set_header` fills from a `$ssl_…` variable, also by way of `set`. A variable that the configuration defines
/// under such a name counts, whatever its value comes from.
///
/// The names apply to the whole server block. A location with its own `proxy_set_header` inherits none, and would
/// forward a client's field under a name that the upstream trusts.
enum IdentityNames {
  /// `named`: the names of variables by slot.
  static func of(
    _ root: LocationSettings, _ computed: [Int: ComputedVariable], named: [Int: String]
  ) -> [[UInt8]] {
    let locations = root.withInner
    let slots = slots(in: locations, computed, from: Set(named.filter { $0.value.hasPrefix("ssl_") }.keys))
    var names: [[UInt8]] = []
    for case let pass? in locations.map({ $0[ProxyPassSettings.self] }) {
      if pass.clientIdentity != .off { names += IdentityFieldForm.names.map { Array($0.utf8) } }
      names += pass.setFields.filter { saysClient($0.value, slots) }.map(\.name)
    }
    var seen: Set<[UInt8]> = []
    return names.filter { seen.insert($0).inserted }
  }

  /// The slot for what is captured by position: `$1`.
  private static let positional = -1

  /// The slots whose values come from `$ssl_…` variables, directly or through another slot: by `set`, by the captures of
  /// an `if`, or by `map`, `geo` and `split_clients`. `found`: those that are known to be such.
  private static func slots(
    in locations: [LocationSettings], _ computed: [Int: ComputedVariable], from found: Set<Int>
  ) -> Set<Int> {
    var found = found
    // What the upstream of `auth_request` says of the client.
    for location in locations { found.formUnion(location[AuthRequest.self]?.slots ?? []) }
    var count: Int
    repeat {
      count = found.count
      for step in locations.flatMap({ $0[Rewrite.self]?.steps.withInner ?? [] }) {
        switch step {
        case .set(let slot, let template) where saysClient(template, found): found.insert(slot)
        case .if(let block):
          guard case .matches(let subject, _, let captures) = block.condition, saysClient(subject, found) else { break }
          found.insert(positional)
          found.formUnion(captures.map(\.slot))
        default: break
        }
      }
      for (slot, variable) in computed {
        switch variable.source {
        case .map(let map):
          if saysClient(map.subject, found) {
            found.insert(slot)
            if !map.patterns.isEmpty { found.insert(positional) }
            found.formUnion(map.patterns.flatMap { $0.captures.map(\.slot) })
          }
          if map.values.contains(where: { saysClient($0, found) }) { found.insert(slot) }
        case .geo(let geo): if let subject = geo.subject, saysClient(subject, found) { found.insert(slot) }
        case .split(let split): if saysClient(split.subject, found) { found.insert(slot) }
        case .keyval(let keyval): if saysClient(keyval.key, found) { found.insert(slot) }
        }
      }
    } while found.count > count
    return found
  }

  private static func saysClient(_ template: Template, _ slots: Set<Int>) -> Bool {
    template.uses {
      switch $0 {
      case .feature(let variable): variable.saysClient
      case .simple(let variable): variable.rawValue.hasPrefix("ssl_")
      case .slot(let slot), .settable(let slot, _): slots.contains(slot)
      case .capture, .escapedCapture: slots.contains(positional)
      default: false
      }
    }
  }
}

extension LocationSettings {
  fileprivate var withInner: [LocationSettings] { [self] + (locations + conditional).flatMap(\.withInner) }
}

extension [RewriteStep] {
  /// The steps, and those of `if` blocks.
  fileprivate var withInner: [RewriteStep] {
    flatMap { step in
      if case .if(let block) = step { [step] + block.steps.withInner } else { [step] }
    }
  }
}
