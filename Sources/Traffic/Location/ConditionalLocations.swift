/// The locations of a server's `if` blocks, by index: the steps of a location lead there, and must not retain it.
package final class ConditionalLocations {
  private var locations: [LiveLocation] = []

  /// Adds a location, and returns its index.
  package func add(_ location: LiveLocation) -> Int {
    locations.append(location)
    return locations.count - 1
  }

  package subscript(index: Int) -> LiveLocation? { locations.indices.contains(index) ? locations[index] : nil }
}
