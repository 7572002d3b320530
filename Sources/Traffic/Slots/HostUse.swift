package import Observability

/// A host name that a line of a location gives in place of addresses, which are looked up at each start and reload.
package struct HostUse: Sendable, Hashable {
  package let name: String
  package let location: SourceLocation
  private let directive: String

  package init(_ name: String, of directive: String, at location: SourceLocation) {
    self.name = name
    self.location = location
    self.directive = directive
  }

  /// The fault of a name without an address.
  package var fault: Diagnostic {
    Diagnostic(
      .error, at: location, "host not found in \(directive) \"\(name)\"",
      hint: "names are resolved at start and reload: see that `getent hosts` knows it, or give an address")
  }
}

extension LocationSettings {
  /// The host names that features look up for the location.
  package var hosts: [HostUse] { features.flatMap(\.hosts) }
}
