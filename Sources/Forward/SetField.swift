import Bytes
public import Observability
public import Traffic

/// One `proxy_set_header`; an empty value leaves the field out, whatever the client sent.
public struct SetField: Sendable, Hashable {
  public let name: [UInt8]
  /// What lines of the configuration say, without constants that are empty. Of several values, the first that isn't empty
  /// for a request goes out. Only a singleton field has several.
  public private(set) var values: [Template]
  /// What goes out if all values are empty; nil: no field does.
  public let fallback: Template?

  public init(name: [UInt8], value: Template? = nil, fallback: Template? = nil) {
    self.name = name
    values = value.map { $0.isEmpty ? [] : [$0] } ?? []
    self.fallback = fallback
  }

  /// All that can go out, in the order in which a request tries them.
  public var candidates: [Template] {
    guard let fallback, values.last?.hasLiteral != true else { return values }
    return values + [fallback]
  }

  /// A later line for the same singleton field: it goes before the earlier ones.
  package mutating func override(with value: Template) {
    if value.isEmpty { return }
    values = value.hasLiteral ? [value] : [value] + values
  }

  /// `Connection: close`: its server ends the connection, whatever it answers.
  package var closesConnection: Bool {
    func lower(_ bytes: [UInt8]) -> [UInt8] { bytes.map(ASCII.lower) }
    return lower(name) == Array("connection".utf8) && values.first?.constant.map(lower) == Array("close".utf8)
  }
}

/// A `proxy_set_header` of an outer level that is not in effect, because the location has lines of its own.
public struct DroppedField: Sendable, Hashable {
  public let name: [UInt8]
  public let location: SourceLocation

  package init(name: [UInt8], location: SourceLocation) {
    self.name = name
    self.location = location
  }
}
