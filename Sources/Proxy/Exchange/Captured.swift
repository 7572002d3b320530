import Bytes
import Patterns

/// What regular expressions and `set` leave for templates.
extension Exchange {
  func setSlot(_ slot: Int, _ value: [UInt8]) {
    while slots.count <= slot { slots.append([]) }
    slots[slot] = value
  }

  /// Keeps what a regular expression captured: `subject` is what it matched.
  func take(_ captures: Captures, of subject: [UInt8], slots: [NamedCapture]) {
    func text(_ group: Int) -> [UInt8] {
      guard let range = captures[group], range.end <= subject.count else { return [] }
      return Array(subject[Int(range.start)..<range.end])
    }
    self.captures = (0..<captures.count).map(text)
    for named in slots { setSlot(named.slot, text(named.group)) }
  }
}
