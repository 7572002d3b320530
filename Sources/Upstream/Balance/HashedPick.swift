/// `hash`, `ip_hash` and `random`: a number chooses, by the weights of all servers, of those too that can't be used.
/// After 20 tries at servers that can't, all of these return nil, and the servers take turns (as in nginx).
extension Balancer {
  private static let tries = 20

  private var canHash: Bool { peers.count > 1 && totalWeight > 0 }

  /// The server in whose part of the weights the number lies.
  private func server(at number: UInt64) -> Int {
    let place = Int(clamping: number % UInt64(clamping: totalWeight))
    var (low, high) = (0, starts.count)
    while high - low > 1 {
      let middle = (low + high) / 2
      if starts[middle] <= place { low = middle } else { high = middle }
    }
    return low
  }

  /// Cache::Memcached's hash, with nginx's rehash.
  mutating func hashed(now: UInt64, _ selection: inout Selection) -> Int? {
    guard canHash, selection.tries <= Self.tries, case .digest(let digest) = selection.key else { return nil }
    if let bound = boundServer(selection, now: now) { return bound }
    while selection.tries <= Self.tries {
      let number = selection.rehashes == 0 ? digest.checksum : digest.checksum(after: selection.rehashes)
      selection.hash += Int(number >> 16 & 0x7FFF)
      selection.rehashes += 1
      let index = server(at: UInt64(clamping: selection.hash))
      if isUsable(index, selection, now: now) { return index }
      selection.tries += 1
    }
    return nil
  }

  /// nginx's `ip_hash`.
  mutating func byAddress(now: UInt64, _ selection: inout Selection) -> Int? {
    guard canHash, selection.tries <= Self.tries, case .address(let address) = selection.key else { return nil }
    if let bound = boundServer(selection, now: now) { return bound }
    var hash = selection.rehashes == 0 ? 89 : selection.hash
    while selection.tries <= Self.tries {
      hash = address.hash(after: hash)
      let index = server(at: UInt64(clamping: hash))
      if isUsable(index, selection, now: now) {
        (selection.hash, selection.rehashes) = (hash, 1)
        return index
      }
      selection.tries += 1
    }
    return nil
  }

  /// Ketama: the servers of the first point at or after the hash, in turn.
  mutating func onRing(now: UInt64, _ selection: inout Selection) -> Int? {
    guard let ring = plan.ring, !ring.isEmpty, canHash, selection.tries <= Self.tries,
      case .digest(let digest) = selection.key
    else { return nil }
    if let bound = boundServer(selection, now: now) { return bound }
    if selection.rehashes == 0 { (selection.hash, selection.rehashes) = (ring.place(of: digest.checksum), 1) }
    while selection.tries <= Self.tries {
      var total = 0
      var choice: Int?
      for index in peers.indices where ring.isPoint(at: selection.hash, of: index) {
        guard isUsable(index, selection, now: now) else { continue }
        total += gain(index, now: now)
        if let current = choice, peers[index].currentWeight <= peers[current].currentWeight { continue }
        choice = index
      }
      if let choice {
        peers[choice].currentWeight -= total
        return choice
      }
      selection.hash += 1
      selection.tries += 1
    }
    return nil
  }

  mutating func drawn(now: UInt64, _ selection: inout Selection) -> Int? {
    guard canHash, selection.tries <= Self.tries else { return nil }
    if let bound = boundServer(selection, now: now) { return bound }
    while selection.tries <= Self.tries {
      let index = server(at: generator.next())
      if isUsable(index, selection, now: now) { return index }
      selection.tries += 1
    }
    return nil
  }

  /// Of two servers drawn at random, the one with less to do.
  mutating func drawnOfTwo(now: UInt64, _ time: BalanceMethod.ResponseTime?, _ selection: inout Selection) -> Int? {
    guard canHash, selection.tries <= Self.tries else { return nil }
    if let bound = boundServer(selection, now: now) { return bound }
    var first: Int?
    while selection.tries <= Self.tries {
      let index = server(at: generator.next())
      if index != first, isUsable(index, selection, now: now) {
        guard let other = first else {
          first = index
          continue
        }
        let (load, loadOfOther) = (load(index, time, now: now), load(other, time, now: now))
        let isHeavier =
          load.saturatingProduct(peers[other].terms.weight) > loadOfOther.saturatingProduct(peers[index].terms.weight)
        return isHeavier ? other : index
      }
      selection.tries += 1
    }
    return nil
  }
}
