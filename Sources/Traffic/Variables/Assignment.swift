/// What a location's requests get of a value: variables by `set`, or by the captures of a condition.
package struct Assignment {
  package let value: Template
  /// The slots of the variables.
  package let slots: [Int]
  /// Whether the captures by position (`$1`) come from the value.
  package let setsCaptures: Bool

  package init(of value: Template, to slots: [Int], setsCaptures: Bool = false) {
    self.value = value
    self.slots = slots
    self.setsCaptures = setsCaptures
  }
}
