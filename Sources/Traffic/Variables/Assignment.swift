/// What a location's requests get of a value: variables by `set`, or by the captures of a condition.
struct Assignment {
  let value: Template
  /// The slots of the variables.
  let slots: [Int]
  /// Whether the captures by position (`$1`) come from the value.
  let setsCaptures: Bool

  init(of value: Template, to slots: [Int], setsCaptures: Bool = false) {
    self.value = value
    self.slots = slots
    self.setsCaptures = setsCaptures
  }
}
