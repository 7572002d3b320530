package import Traffic

/// What the choice of a group's server asks of a request: the key of `hash`, and `sticky`.
package struct BalanceSettings: Sendable, Hashable {
  /// `hash KEY`
  package var key: Template?
  package var sticky: StickySettings?
}
