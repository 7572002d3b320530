extension Comparison {
  /// For a person: each difference with the lines that make it. `program`: the old one's name.
  package func report(_ program: String, _ trial: Trial) -> String {
    var lines: [String] = []
    for note in trial.omitted {
      lines.append("not compared: \(note.line.file):\(note.line.number): \(note.line.text): \(note.reason)")
    }
    for (index, target) in trial.standIns.targets.enumerated() where differences.contains(where: { $0.names(index) }) {
      lines.append("server \(index) is \(target.address)")
    }
    if !lines.isEmpty { lines.append("") }
    for (door, notes) in closed {
      lines += ["\(door.address): sallyport lets nobody in"] + notes.prefix(8).flatMap(Difference.text) + [""]
    }
    for difference in differences { lines += difference.text(program) + [""] }
    let number = differences.count { $0.kind != .shared } + closed.count
    lines.append(
      "\(count) connections to each of \(program) and sallyport, "
        + (number == 0 ? "and nothing differs" : "\(number) difference\(number == 1 ? "" : "s")"))
    return lines.joined(separator: "\n") + "\n"
  }

  /// Whether somebody gets in whom the old program refuses, or another server answers: then the conversion is wrong.
  package var isWrong: Bool { differences.contains { $0.kind == .opened || $0.kind == .elsewhere } }
  package var isSame: Bool { closed.isEmpty && !differences.contains { $0.kind != .shared } }
}

extension Comparison.Difference {
  fileprivate func names(_ target: Int) -> Bool {
    [old, ours].contains { if case .reached(target, _) = $0 { true } else { false } }
  }

  fileprivate func text(_ program: String) -> [String] {
    var sentence = kind.rawValue
    switch kind {
    case .opened: sentence = "sallyport lets in whom \(program) refuses"
    case .hole: sentence = "a hole of \(program)'s, which sallyport doesn't have"
    case .closed: sentence = "sallyport refuses whom \(program) lets in"
    default: break
    }
    var text = ["\(door.address): \(sentence)"]
    text.append("    \(question)" + (count > 1 ? " (and \(count - 1) more like it)" : ""))
    if kind == .fields || kind == .hole, case .reached(_, let before) = old, case .reached(_, let now) = ours {
      for name in Set(before.keys).union(now.keys).sorted() where before[name] != now[name] {
        text.append("    \(program): \(name): \(before[name] ?? "")")
        text.append("    sallyport: \(name): \(now[name] ?? "")")
      }
    } else {
      text += ["    \(program): \(old)", "    sallyport: \(ours)"]
    }
    return text + lines.flatMap(Self.text)
  }

  fileprivate static func text(_ note: ConversionNote) -> [String] {
    ["    \(note.line.file):\(note.line.number): \(note.line.text)"]
      + (note.reason.isEmpty ? [] : ["        \(note.outcome.rawValue): \(note.reason)"])
  }

  /// What the client did.
  private var question: String {
    var words: [String] = []
    if door.isHTTP { words.append("GET \(example.path) of \(example.host)") }
    if door.isTLS || door.isPassedOn {
      words.append("\(example.version.rawValue) with " + (example.serverName.map { "the name \($0)" } ?? "no name"))
    }
    if door.isTLS { words.append(example.shown.description) }
    if example.guise != .right { words.append("behind it \(example.guise.rawValue)") }
    return words.isEmpty ? "a connection" : words.joined(separator: ", ")
  }
}
