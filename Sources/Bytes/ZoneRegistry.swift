import Synchronization

/// State that workers and generations share under a name, such as nginx's zones: whoever declares the same identity while
/// the object is in use gets the same object, so a reload forgets nothing. An object lives as long as somebody uses it.
public final class ZoneRegistry<Identity: Hashable & Sendable, Zone: AnyObject & Sendable>: Sendable {
  private struct Weak: Sendable {
    weak var zone: Zone?
  }

  private let zones = Mutex<[Identity: Weak]>([:])

  public init() {}

  /// Returns the object of this identity; nil if nobody uses it.
  public func existing(_ identity: Identity) -> Zone? { zones.withLock { $0[identity]?.zone } }

  /// Returns the object of this identity. `adopt`: called with one that there was, under the registry's lock. `make`:
  /// called, under the lock, with those of other identities that are in use, in no order.
  public func zone(
    _ identity: Identity, adopt: (Zone) -> Void = { _ in }, make: (_ others: [(identity: Identity, zone: Zone)]) -> Zone
  ) -> Zone {
    zones.withLock { zones in
      if let zone = zones[identity]?.zone {
        adopt(zone)
        return zone
      }
      var others: [(identity: Identity, zone: Zone)] = []
      for (identity, weak) in zones {
        if let zone = weak.zone { others.append((identity, zone)) } else { zones[identity] = nil }
      }
      let zone = make(others)
      zones[identity] = Weak(zone: zone)
      return zone
    }
  }
}
