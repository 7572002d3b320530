import Identity

/// The names of the fields by which a server tells upstreams who its client is: those of `client_identity`, and each that
/// a `proxy_set_header` fills from a `$ssl_…` variable, also by way of `set`.
///
/// Why for the whole server: a location with a `proxy_set_header` of its own inherits none, and would pass on what the
/// client wrote under a name that the upstream believes.
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

  /// Variables of `set` that hold what TLS says, or what such a variable holds.
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
      // Early-Data is every intermediary's to pass on (RFC 8470 §5.1).
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
