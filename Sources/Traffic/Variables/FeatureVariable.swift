/// What a server serves: requests of HTTP, or connections of any protocol (`stream`).
public enum TrafficKind: Sendable, Hashable {
  case http, stream
}

/// How the value of a feature's variable is read. Settings only pass it on; what runs knows its kinds.
package protocol VariableReader: Sendable {}

/// A variable of a feature. Two of one name are the same.
public struct FeatureVariable: Sendable, Hashable {
  /// Without `$`, lower-case.
  package let name: String
  /// What the value is, for the manual. Empty for a variable that no configuration can name.
  package let help: String
  /// Whether nginx has no variable of that name, so that a configuration of nginx's may define it.
  package let isOursAlone: Bool
  /// Whether the value says who the client is. sallyport removes each field that is set from it from clients' requests.
  package let saysClient: Bool
  /// Whether `set` may give it a value, which its feature heeds.
  package let isSettable: Bool
  /// Whether it is the name that a client asks for, which a client can freely choose.
  package let isClientsWish: Bool
  /// In whose configurations it is.
  package let kinds: Set<TrafficKind>
  package let reader: any VariableReader

  /// `saysClient`: nil for what the name says, which is true of `ssl_…`.
  package init(
    _ name: String, _ help: String = "", isOursAlone: Bool = false, isSettable: Bool = false, saysClient: Bool? = nil,
    isClientsWish: Bool = false, of kinds: Set<TrafficKind> = [.http], reader: any VariableReader
  ) {
    self.saysClient = saysClient ?? name.hasPrefix("ssl_")
    self.isClientsWish = isClientsWish
    self.name = name
    self.help = help
    self.kinds = kinds
    self.isOursAlone = isOursAlone
    self.isSettable = isSettable
    self.reader = reader
  }

  public static func == (one: FeatureVariable, other: FeatureVariable) -> Bool { one.name == other.name }
  public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
