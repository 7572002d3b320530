/// Services that share a port by the name in the ClientHello: `sni = MASTER:PATTERN`.
///
/// stunnel takes the first pattern of the file that fits; our servers are found by the nearest name. Where that would differ,
/// the later pattern never served anybody, and is dropped.
struct StunnelNames {
  private let services: [StunnelFile.Service]
  private var masterIndex: [Int: Int] = [:]
  private(set) var masters: Set<String> = []
  /// Words of `server_name` by the place of the service.
  private(set) var names: [Int: [(word: String, line: OldLine)]] = [:]
  private(set) var dropped: [Int: [OldLine]] = [:]
  private(set) var faults: [Int: [(line: OldLine, reason: String)]] = [:]

  func master(of index: Int) -> StunnelFile.Service? { masterIndex[index].map { services[$0] } }

  init(_ services: [StunnelFile.Service]) {
    self.services = services
    var places: [String: Int] = [:]
    for (index, service) in services.enumerated() where places[service.name] == nil { places[service.name] = index }
    var taken: [Int: Taken] = [:]
    for (index, service) in services.enumerated() {
      let all = service.defaults + service.options
      guard all.last(where: { $0.name == "client" })?.value.lowercased() != "yes" else { continue }
      for option in all where option.name == "sni" {
        guard let colon = option.value.utf8.firstIndex(of: UInt8(ascii: ":")),
          let place = places[OldText.trimmed(option.value[..<colon])], place != index
        else {
          faults[index, default: []].append(
            (option.line, "a server's sni is SERVICE:PATTERN, with a service that is there"))
          continue
        }
        if masterIndex[index].map({ $0 != place }) == true {
          faults[index, default: []].append((option.line, "a service has one master here: write a service for each"))
          continue
        }
        masterIndex[index] = place
        masters.insert(services[place].name)
        let pattern = OldText.trimmed(option.value[option.value.utf8.index(after: colon)...]).lowercased()
        guard let word = Self.word(pattern) else {
          faults[index, default: []].append((option.line, "a name, or one that begins with *"))
          continue
        }
        if taken[place, default: Taken()].add(pattern) {
          names[index, default: []].append((word, option.line))
        } else {
          dropped[index, default: []].append(option.line)
        }
      }
    }
    for (index, place) in masterIndex where masterIndex[place] != nil {
      faults[index, default: []].append((services[index].head, "its master has a master itself"))
    }
  }

  /// As `server_name` has it. A pattern that doesn't begin a label is a regular expression.
  private static func word(_ pattern: String) -> String? {
    guard pattern.hasPrefix("*") else { return Endpoint.isHost(pattern) && !pattern.contains(":") ? pattern : nil }
    let end = pattern.dropFirst()
    if end.hasPrefix("."), Endpoint.isHost(String(end.dropFirst())) { return pattern }
    guard end.isEmpty || Endpoint.isHost("x\(end)") else { return nil }
    return end.isEmpty ? "~." : "~\(ConvertedWord.expression(of: String(end)))\\z"
  }

  /// The patterns of one master so far.
  private struct Taken {
    private var exact: Set<String> = []
    /// What names end in.
    private var ends: Set<String> = []

    /// Whether no earlier pattern covers all names of this one.
    mutating func add(_ pattern: String) -> Bool {
      let isEnd = pattern.hasPrefix("*")
      let text = isEnd ? pattern.dropFirst() : pattern[...]
      if !isEnd, exact.contains(pattern) { return false }
      var rest = text
      while true {
        if ends.contains(String(rest)) { return false }
        if rest.isEmpty { break }
        rest = rest.dropFirst()
      }
      if isEnd { ends.insert(String(text)) } else { exact.insert(pattern) }
      return true
    }
  }
}
