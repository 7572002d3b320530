import Testing

@testable import HTTP

@Suite struct `Places of statuses` {
  private let places = StatusPlaces.shared

  @Test func `each status that is known has a place of its own, and all others share one of their class`() {
    #expect(Set(StatusPlaces.codes.map { places.place(of: $0) }).count == StatusPlaces.codes.count)
    #expect(
      StatusPlaces.codes == StatusPlaces.codes.sorted() && Set(StatusPlaces.codes).count == StatusPlaces.codes.count)
    for (status, place) in [
      (99, 0), (Int.min, 0), (199, 0), (299, 1), (399, 2), (479, 3), (599, 4), (600, 4), (.max, 4),
    ] {
      #expect(places.place(of: status) == place, "\(status)")
    }
    #expect((100...599).allSatisfy { (0..<StatusPlaces.count).contains(places.place(of: $0)) })
  }

  @Test func `classes have what their statuses have, and only what came is seen`() {
    var counts = [UInt64](repeating: 0, count: StatusPlaces.count)
    for status in [100, 200, 200, 299, 404, 444, 503, 599, 600] { counts[places.place(of: status)] += 1 }
    #expect(StatusPlaces.byClass(counts) == [1, 3, 0, 2, 3])
    #expect(StatusPlaces.seen(counts).map(\.status) == [100, 200, 404, 444, 503])
    #expect(StatusPlaces.seen(counts).map(\.count) == [1, 2, 1, 1, 1])
  }
}
