import Identity

/// The names of the fields by which a server tells upstreams who its client is: those of `client_identity`, and each that
/// a `proxy_set_header` fills from a `$ssl_…` variable, also by way of `set`.
///
/// The names apply to the whole server block. A location with its own `proxy_set_header` inherits none, and would
/// forward a client's field under a name that the upstream trusts.
enum IdentityNames {
  static func of(_ root: LocationSettings) -> [[UInt8]] {
    let locations = root.withInner
    let slots = slots(in: locations)
    var names: [[UInt8]] = []
    for case .proxy(let pass) in locations.map(\.action) {
      if pass.clientIdentity != .off { names += IdentityFieldForm.names.map { Array($0.utf8) } }
      names += pass.setFields.filter { saysClient($0.value, slots) }.map(\.name)
    }
    var seen: Set<[UInt8]> = []
    return names.filter { seen.insert($0).inserted }
  }

  /// The slots of `set` whose values come from `$ssl_…` variables, directly or through another slot.
  private static func slots(in locations: [LocationSettings]) -> Set<Int> {
    var found: Set<Int> = []
    var count: Int
    repeat {
      count = found.count
      for case .set(let slot, let template) in locations.flatMap(\.rewrite) where saysClient(template, found) {
        found.insert(slot)
      }
    } while found.count > count
    return found
  }

  private static func saysClient(_ template: Template, _ slots: Set<Int>) -> Bool {
    template.uses {
      switch $0 {
      // Every intermediary forwards Early-Data (RFC 8470 §5.1).
      case .simple(let variable): variable.rawValue.hasPrefix("ssl_") && variable != .ssl_early_data
      case .slot(let slot): slots.contains(slot)
      default: false
      }
    }
  }
}

extension LocationSettings {
  fileprivate var withInner: [LocationSettings] { [self] + locations.flatMap(\.withInner) }
}
