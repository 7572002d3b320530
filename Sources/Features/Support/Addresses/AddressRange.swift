import Traffic
package import Transport

/// The addresses from `first` to `last`, in 128 bits: an IPv4 address is `::ffff:a.b.c.d`, as in a dual-stack socket.
package struct AddressRange: Sendable, Hashable {
  package var first: UInt128
  package var last: UInt128
  /// An IPv4 address is in no network of IPv6 addresses, also where a dual-stack socket gave it.
  package var isIPv4: Bool

  private static let mapped = UInt128(0xFFFF) << 32

  /// The address in 128 bits; nil for a socket of the file system.
  package static func number(_ address: SocketAddress) -> UInt128? {
    switch address {
    case .ipv4(let address, _): mapped | UInt128(address)
    case .ipv6(let high, let low, _): UInt128(high) << 64 | UInt128(low)
    case .unix, .name: nil
    }
  }

  package static func isIPv4(_ number: UInt128) -> Bool { number >> 32 == 0xFFFF }

  /// Parses an address, or a network as `10.0.0.0/8`. `isExact` is false if bits beyond the mask are set; they don't
  /// count. `::ffff:10.0.0.0/104` is that IPv4 network.
  package static func parse(_ text: String) -> (range: AddressRange, isExact: Bool)? {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    guard let literal = parts.first, let address = SocketAddress(literal: literal, port: 0),
      let number = number(address)
    else { return nil }
    let isIPv4 = if case .ipv4 = address { true } else { false }
    let width = isIPv4 ? 32 : 128
    var length = width
    if parts.count > 1 {
      guard (1...3).contains(parts[1].utf8.count), parts[1].utf8.allSatisfy({ $0 &- 48 < 10 }),
        let given = Int(parts[1]), given <= width
      else { return nil }
      length = given
    }
    let host: UInt128 = width == length ? 0 : UInt128.max >> UInt128(128 - (width - length))
    let isMapped = length >= 96 && Self.isIPv4(number)
    let range = AddressRange(first: number & ~host, last: number | host, isIPv4: isIPv4 || isMapped)
    return (range, number & host == 0)
  }

  package func contains(_ number: UInt128) -> Bool {
    Self.isIPv4(number) == isIPv4 && first <= number && number <= last
  }
}

/// Which value an address has: that of the smallest network or of the range that contains it. The ranges are disjoint and
/// sorted, so a look-up is a binary search.
package struct GeoTable: Sendable, Hashable {
  private var starts: [UInt128] = []
  private var ends: [UInt128] = []
  private var indices: [Int] = []

  /// `networks`: nested networks, or disjoint ranges, of one family. Where two are equal, the later one counts.
  package init(_ networks: [(range: AddressRange, index: Int)]) {
    // Outer networks come before those inside.
    let sorted = networks.enumerated().sorted { left, right in
      let (a, b) = (left.element.range, right.element.range)
      if a.first != b.first { return a.first < b.first }
      return a.last != b.last ? a.last > b.last : left.offset < right.offset
    }.map(\.element)
    var open: [(range: AddressRange, index: Int)] = []
    var next: UInt128 = 0
    for network in sorted {
      while let outer = open.last, outer.range.last < network.range.first {
        add(next, outer.range.last, outer.index)
        next = outer.range.last &+ 1
        open.removeLast()
      }
      if let outer = open.last, next < network.range.first { add(next, network.range.first - 1, outer.index) }
      next = network.range.first
      open.append(network)
    }
    while let outer = open.popLast() {
      if next <= outer.range.last { add(next, outer.range.last, outer.index) }
      guard outer.range.last < .max else { break }
      next = max(next, outer.range.last + 1)
    }
  }

  private mutating func add(_ first: UInt128, _ last: UInt128, _ index: Int) {
    guard first <= last else { return }
    starts.append(first)
    ends.append(last)
    indices.append(index)
  }

  /// The index of the value for an address; nil if there is none.
  package func find(_ number: UInt128) -> Int? {
    var (low, high) = (0, starts.count)
    while low < high {
      let middle = (low + high) / 2
      if starts[middle] <= number { low = middle + 1 } else { high = middle }
    }
    return low > 0 && number <= ends[low - 1] ? indices[low - 1] : nil
  }
}
