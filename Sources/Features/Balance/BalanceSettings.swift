/// What the choice of a group's server asks of a request: the key of `hash`, and `sticky`.
public struct BalanceSettings: Sendable, Hashable {
  /// `hash KEY`
  public var key: Template?
  public var sticky: StickySettings?
}
