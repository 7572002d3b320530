import Language

/// Passes of nginx's to servers that nothing verifies: what is to be filled in, and where.
extension NginxTree {
  /// The file of a CA to fill in, which isn't there.
  private static let authority = "TO-BE-FILLED-IN/ca.crt"

  /// Servers that could be asked for their pins.
  var gaps: [TrustGap] {
    trustPlaces().sorted { $0.key < $1.key }.flatMap { place, passes in
      isOfSeveral(place) ? [] : passes.compactMap { nodes[$0].open?.gap }
    }
  }

  /// The passes whose trust is filled in at each place: at the pass itself, or, of several in `http` or in `stream`, at the
  /// beginning of the innermost block around all of them.
  func trustPlaces() -> [Int: [Int]] {
    let open = nodes.indices.filter { nodes[$0].open != nil && isInEffect($0) && nodes[$0].state == .kept }
    var places: [Int: [Int]] = [:]
    for passes in Dictionary(grouping: open, by: { blocks(around: $0).first }).values {
      let around = passes.map { blocks(around: $0) }
      let shared = around.dropFirst().reduce(around.first ?? []) { shared, next in
        zip(shared, next).prefix { $0 == $1 }.map { $0.0 }
      }
      if passes.count > 1, !pinsEach, let block = shared.last {
        places[block] = passes
      } else {
        for pass in passes { places[pass] = [pass] }
      }
    }
    return places
  }

  func trustLines(_ passes: [Int], in place: Int) -> (comments: [String], lines: [String]) {
    let comments = passes.flatMap { trustNote($0, in: place).comment }
    guard !isOfSeveral(place) else {
      let prefixes = Set(passes.compactMap { nodes[$0].open?.prefix }).sorted()
      return ([], comments + prefixes.map { "\($0)_trusted_certificate \(Self.authority);" })
    }
    guard let open = nodes[place].open else { return ([], []) }
    guard let gap = open.gap else { return (comments, ["\(open.prefix)_trusted_certificate \(Self.authority);"]) }
    return (comments, ["\(open.prefix)_verify off;", ConvertedWord.statement("\(open.prefix)_pin", [gap.path])])
  }

  func trustNote(_ pass: Int, in place: Int) -> ConversionNote {
    let open = nodes[pass].open
    let reason: String
    if let gap = open?.gap {
      reason = isOfSeveral(place) ? gap.reasonAmongOthers("nginx", prefix: open?.prefix ?? "") : gap.reason("nginx")
    } else {
      reason = "nginx doesn't verify the servers that a variable names here: name the CA that issued their certificates"
    }
    return ConversionNote(.refused, nodes[pass].line, reason)
  }

  private func isOfSeveral(_ place: Int) -> Bool { nodes[place].directive.block != nil }

  /// The blocks around a directive, from the outside in.
  private func blocks(around index: Int) -> [Int] {
    var blocks: [Int] = []
    var place = nodes[index].parent
    while let block = place {
      blocks.insert(block, at: 0)
      place = nodes[block].parent
    }
    return blocks
  }
}
