/// The points of `hash … consistent`: 160 for each unit of weight, on a circle of 32-bit numbers, where nginx and
/// Cache::Memcached::Fast put them. Servers of one name share their points.
///
/// Immutable, and made once a generation: all workers share its storage.
public struct HashRing: Sendable, Equatable {
  /// How many units of weight a group may have, so that the points fit into memory.
  public static let heaviest = 20_000
  private static let pointsPerUnit = 160

  private struct Point: Equatable {
    var hash: UInt32
    /// Index into `names`.
    var name: UInt32
  }

  private let points: [Point]
  /// By index of the server: which name's points are its own.
  private let names: [UInt32]

  /// `servers`: the address of each as the configuration spells it, and its weight. `heaviest`: the most that they weigh.
  init(_ servers: [(spelling: String, weight: Int)], heaviest: Int = Self.heaviest) {
    var known: [String: UInt32] = [:]
    var names: [UInt32] = []
    var points: [Point] = []
    var units = 0
    for server in servers {
      let name = known[server.spelling] ?? UInt32(truncatingIfNeeded: known.count)
      known[server.spelling] = name
      names.append(name)
      // Configuration refuses more. Names that have many addresses can still come to more.
      let weight = min(max(0, server.weight), heaviest - units)
      units += weight
      var start = Checksum()
      start.add(Self.place(server.spelling))
      var hash: UInt32 = 0
      for _ in 0..<(weight * Self.pointsPerUnit) {
        var next = start
        next.add((0..<4).map { UInt8(truncatingIfNeeded: hash >> ($0 * 8)) })
        hash = next.value
        points.append(Point(hash: hash, name: name))
      }
    }
    points.sort { $0.hash == $1.hash ? $0.name < $1.name : $0.hash < $1.hash }
    var distinct: [Point] = []
    distinct.reserveCapacity(points.count)
    for point in points where distinct.last?.hash != point.hash { distinct.append(point) }
    self.points = distinct
    self.names = names
  }

  var isEmpty: Bool { points.isEmpty }

  /// Where a search for this hash begins.
  func place(of hash: UInt32) -> Int {
    var (low, high) = (0, points.count)
    while low < high {
      let middle = (low + high) / 2
      if points[middle].hash < hash { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Whether the point at this place is one of the server's. Places go round.
  func isPoint(at place: Int, of server: Int) -> Bool {
    guard !points.isEmpty, names.indices.contains(server) else { return false }
    return points[place % points.count].name == names[server]
  }

  /// `HOST NUL PORT`, as nginx hashes a server.
  private static func place(_ spelling: String) -> [UInt8] {
    let text = Array(spelling.utf8)
    if text.prefix(5).map({ $0 | 0x20 }) == Array("unix:".utf8) { return text.dropFirst(5) + [0] }
    let digits = text.reversed().prefix { (0x30...0x39).contains($0) }.count
    let colon = text.count - digits - 1
    guard colon >= 0, text[colon] == 0x3A else { return text + [0] }
    return text[..<colon] + [0] + text[(colon + 1)...]
  }
}
