/// Where a row of counts has the responses of each status: a place for each status that RFC 9110, its registry and nginx
/// know, and before them one for all others of each class. A table of all five hundred would take kilobytes for each
/// server of each worker.
public struct StatusPlaces: Sendable {
  /// In the order of their places, which follow those of the classes.
  public static let codes = ranges.flatMap { Array($0) }
  private static let ranges: [ClosedRange<Int>] = [
    100...103, 200...208, 226...226, 300...308, 400...418, 421...426, 428...429, 431...431, 444...444, 451...451,
    494...499, 500...508, 510...511,
  ]

  private static let classes = 5
  /// That of other statuses of the last class.
  @usableFromInline static var last: Int { 4 }
  public static let count = classes + codes.count
  public static let shared = StatusPlaces()

  /// By status, from 100 on.
  @usableFromInline let places: [UInt8]

  private init() {
    var places = (100...599).map { UInt8($0 / 100 - 1) }
    for (index, code) in Self.codes.enumerated() { places[code - 100] = UInt8(Self.classes + index) }
    self.places = places
  }

  /// A status below the first class counts as one of it, and one above the last as one of that.
  @inlinable
  public func place(of status: Int) -> Int {
    guard status >= 100 else { return 0 }
    return status < 100 + places.count ? Int(places[status - 100]) : Self.last
  }

  /// The count of each class, from `1xx` on. `counts`: by place.
  public static func byClass(_ counts: [UInt64]) -> [UInt64] {
    var sums = Array(counts.prefix(classes))
    for (code, count) in zip(codes, counts.dropFirst(classes)) { sums[code / 100 - 1] &+= count }
    return sums
  }

  /// The statuses that came, with their counts.
  public static func seen(_ counts: [UInt64]) -> [(status: Int, count: UInt64)] {
    zip(codes, counts.dropFirst(classes)).filter { $0.1 > 0 }.map { ($0.0, $0.1) }
  }
}
