public import Patterns

/// A variable of `map`, `geo` or `split_clients`. It is computed when a template first asks for it.
public struct ComputedVariable: Sendable {
  public enum Source: Sendable {
    case map(MapSettings)
    case geo(GeoSettings)
    case split(SplitSettings)
  }

  public var source: Source
  /// Whether each use computes it anew (`volatile`).
  public var isVolatile: Bool

  public init(_ source: Source, isVolatile: Bool = false) {
    self.source = source
    self.isVolatile = isVolatile
  }
}

/// `map`.
public struct MapSettings: Sendable {
  public var subject: Template
  /// Values by lower-case text.
  public var exact: [[UInt8]: Template] = [:]
  /// Values by wildcard name (`hostnames`): suffixes as `.example.com`, and prefixes as `www.example.`.
  public var suffixes: [[UInt8]: Template] = [:]
  public var prefixes: [[UInt8]: Template] = [:]
  public var patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: Template)] = []
  public var standard = Template([])
  /// `hostnames`
  public var takesHostNames = false
  public init(subject: Template) { self.subject = subject }

  /// All values.
  public var values: [Template] {
    Array(exact.values) + Array(suffixes.values) + Array(prefixes.values) + patterns.map(\.value) + [standard]
  }
}

/// `geo`: networks and their values.
public struct GeoSettings: Sendable {
  /// The address to look up; nil: the client's.
  public var subject: Template?
  public var ipv4: GeoTable
  public var ipv6: GeoTable
  /// Indexed by what the tables find; text without variables.
  public var values: [[UInt8]]
  /// The index of `default`; nil for an empty value.
  public var standard: Int?
  /// `proxy`: clients whose X-Forwarded-For counts.
  public var proxies: [AddressRange] = []
  /// `proxy_recursive`
  public var isRecursive = false
  public init(subject: Template?, ipv4: GeoTable, ipv6: GeoTable, values: [[UInt8]], standard: Int?) {
    self.subject = subject
    self.ipv4 = ipv4
    self.ipv6 = ipv6
    self.values = values
    self.standard = standard
  }
}

/// `split_clients`.
public struct SplitSettings: Sendable {
  /// A share of the clients: those whose hash is below `bound`; nil for all the others (`*`).
  public struct Part: Sendable, Hashable {
    public var bound: UInt32?
    public var value: [UInt8]
    public init(bound: UInt32?, value: [UInt8]) {
      self.bound = bound
      self.value = value
    }
  }
  public var subject: Template
  public var parts: [Part]
  public init(subject: Template, parts: [Part]) {
    self.subject = subject
    self.parts = parts
  }
}

