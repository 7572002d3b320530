import Observability
import Language

/// Builds `map` and `split_clients`, and finds circles among variables that are computed.
extension SettingsBuilder {
  /// Builds the variables of `map`, `geo` and `split_clients`, by slot. The last definition of a name counts.
  mutating func computedVariables(_ http: Scope) -> [Int: ComputedVariable] {
    var computed: [Int: ComputedVariable] = [:]
    var places: [Int: Word] = [:]
    for directive in http.directives where ArgumentForm.namesOfTables.contains(directive.name) {
      guard let word = directive.arguments.last,
        let slot = variables.slots[word.text.dropFirst().lowercased()]
      else { continue }
      switch directive.name {
      case "map": computed[slot] = map(directive)
      case "geo": computed[slot] = geo(directive)
      default: computed[slot] = split(directive)
      }
      places[slot] = word
      tables[slot] = directive
    }
    refuseCircles(computed, places)
    return computed
  }

  private mutating func map(_ directive: Directive) -> ComputedVariable {
    var map = MapSettings(subject: template(directive, 0))
    var names = HostNames<Template>()
    var isVolatile = false
    var standard: Template?
    for line in directive.block ?? [] {
      if line.arguments.isEmpty, line.name == "hostnames" {
        map.takesHostNames = true
        continue
      }
      if line.arguments.isEmpty, line.name == "volatile" {
        isVolatile = true
        continue
      }
      guard line.arguments.count == 1, line.block == nil else {
        error(line.location, "invalid number of the map parameters", hint: "TEXT VALUE;")
        continue
      }
      let value = template(line, 0)
      if line.name == "default" {
        if standard != nil { error(line.location, "duplicate default map parameter", hint: "leave one of them out") }
        standard = value
      } else if line.name.hasPrefix("~") {
        guard let pattern = variables.pattern(at: line.nameWord) else { continue }
        map.patterns.append((pattern, variables.namedCaptures(of: pattern), value))
      } else {
        let key = line.name.hasPrefix("\\") ? String(line.name.dropFirst()) : line.name
        if let fault = names.add(key.asciiLowercased, value, areWild: map.takesHostNames) {
          error(line.location, "\(fault.rawValue) \"\(key)\"", hint: "each text once; case doesn't matter")
        }
      }
    }
    map.exact = names.table.exact
    map.suffixes = names.table.suffixes
    map.prefixes = names.table.prefixes
    map.standard = standard ?? Template([])
    return ComputedVariable(.map(map), isVolatile: isVolatile)
  }

  private mutating func split(_ directive: Directive) -> ComputedVariable {
    var parts: [SplitSettings.Part] = []
    // Hundredths of a percent.
    var sum = 0
    var bound: UInt64 = 0
    for line in directive.block ?? [] {
      guard line.arguments.count == 1, line.block == nil else {
        error(line.location, "invalid number of the split_clients parameters", hint: "PERCENT% VALUE; or * VALUE;")
        continue
      }
      let value = Array(line.text(0).utf8)
      if line.name == "*" {
        sum = 10_000
        parts.append(.init(bound: nil, value: value))
        continue
      }
      guard let share = Self.hundredths(line.name) else {
        error(
          line.location, "invalid percent value \"\(line.name)\"", hint: "0.01% to 100%, with up to two decimals, or *")
        continue
      }
      sum += share
      if sum > 10_000 { error(line.location, "percent total is greater than 100%", hint: "the last part can be *") }
      bound += UInt64(share) * 0xFFFF_FFFF / 10_000
      parts.append(.init(bound: UInt32(clamping: bound), value: value))
    }
    return ComputedVariable(.split(SplitSettings(subject: template(directive, 0), parts: parts)))
  }

  /// Parses `12.34%`.
  private static func hundredths(_ text: String) -> Int? {
    guard text.hasSuffix("%") else { return nil }
    let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
    let decimals = parts.count > 1 ? String(parts[1]) : ""
    guard (1...2).contains(parts.count), decimals.utf8.count <= 2, let whole = Quantity.number(String(parts[0])),
      whole <= 100, let rest = Quantity.number((decimals + "00").prefix(2).description)
    else { return nil }
    let share = whole * 100 + rest
    return (1...10_000).contains(share) ? share : nil
  }

  /// Refuses a variable that needs itself, and chains so long that computing them would need much stack.
  private mutating func refuseCircles(_ computed: [Int: ComputedVariable], _ places: [Int: Word]) {
    var depths: [Int: Int] = [:]
    var path: [Int] = []
    func name(_ slot: Int) -> String { places[slot]?.text ?? "" }
    for root in computed.keys.sorted() {
      // A walk without recursion: a configuration may hold a very long chain.
      var stack: [(slot: Int, rest: [Int])] = []
      func needs(_ slot: Int) -> [Int] { computed[slot]?.slots.filter { computed[$0] != nil } ?? [] }
      if depths[root] == nil { stack.append((root, needs(root))) }
      while let top = stack.last {
        path = stack.map(\.slot)
        guard let next = top.rest.last else {
          depths[top.slot] = 1 + (needs(top.slot).compactMap { depths[$0] }.max() ?? 0)
          stack.removeLast()
          continue
        }
        stack[stack.count - 1].rest.removeLast()
        if let start = path.firstIndex(of: next) {
          hasCircles = true
          let circle = (path[start...] + [next]).map(name).joined(separator: " → ")
          error(
            places[next]?.location, "cycle while evaluating variable \"\(name(next).dropFirst())\"",
            hint: "the variables need each other: \(circle)")
          depths[top.slot] = 1
        } else if depths[next] == nil {
          stack.append((next, needs(next)))
        }
      }
      if let depth = depths[root], depth > 100 {
        hasCircles = true
        error(
          places[root]?.location, "the \"\(name(root))\" variable needs a chain of more than 100 variables",
          hint: "nginx evaluates at most 100")
      }
    }
  }
}

extension ComputedVariable {
  /// The slots that its value needs.
  fileprivate var slots: [Int] {
    switch source {
    case .map(let map): map.subject.slots + map.values.flatMap(\.slots)
    case .geo(let geo): geo.subject?.slots ?? []
    case .split(let split): split.subject.slots
    }
  }
}

extension Template {
  fileprivate var slots: [Int] {
    parts.compactMap { part in
      if case .variable(.slot(let slot)) = part { slot } else { nil }
    }
  }
}

extension Directive {
  /// The name as a word: a line of a `map` begins with a text, not with a directive's name.
  var nameWord: Word { Word(name, at: location) }
}

extension String {
  fileprivate var asciiLowercased: String {
    String(decoding: utf8.map { $0 &- 65 < 26 ? $0 | 0x20 : $0 }, as: UTF8.self)
  }
}
