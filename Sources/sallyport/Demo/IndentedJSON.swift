import Observability

extension JSONText {
  /// The same JSON with a line for each member and element, for people.
  var indented: String {
    var shown = ""
    var depth = 0
    var isQuoted = false
    var isEscaped = false
    var last: Character = " "
    func line() -> String { "\n" + String(repeating: "  ", count: depth) }
    for character in text {
      if isQuoted {
        shown.append(character)
        isQuoted = character != "\"" || isEscaped
        isEscaped = character == "\\" && !isEscaped
      } else {
        let isEnd = character == "}" || character == "]"
        if isEnd { depth -= 1 }
        // `{}` and `[]` stay as they are.
        if isEnd ? last != "{" && last != "[" : last == "{" || last == "[" || last == "," { shown += line() }
        shown.append(character)
        switch character {
        case "{", "[": depth += 1
        case ":": shown.append(" ")
        case "\"": isQuoted = true
        default: break
        }
      }
      last = character
    }
    return shown
  }
}
