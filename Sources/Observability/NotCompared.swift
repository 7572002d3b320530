/// Something that stands beside a value and is no part of what the value says, as the place in a file where it was said:
/// equal settings are equal wherever they stand, and share what is made of them.
@propertyWrapper public struct NotCompared<Value: Sendable>: Sendable, Hashable {
  public var wrappedValue: Value

  public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

  public static func == (_: Self, _: Self) -> Bool { true }
  public func hash(into hasher: inout Hasher) {}
}
