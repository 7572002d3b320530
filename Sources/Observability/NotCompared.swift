/// Excludes a property from comparison, such as the place in a file where a setting is written. Equal settings are then
/// equal wherever they are written, and share what is made from them.
@propertyWrapper public struct NotCompared<Value: Sendable>: Sendable, Hashable {
  public var wrappedValue: Value

  public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

  public static func == (_: Self, _: Self) -> Bool { true }
  public func hash(into hasher: inout Hasher) {}
}
