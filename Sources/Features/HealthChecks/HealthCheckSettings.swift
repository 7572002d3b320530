public import Patterns

/// `health_check`: how the servers of a location's group are checked.
///
/// Two settings are equal if they check alike, wherever the configuration has them.
public struct HealthCheckSettings: PassPart, RowSettings, Hashable {
  /// What a check asks, and what it expects.
  public enum Kind: Sendable, Hashable {
    /// GET of this target. nil: a status of 200 to 399 passes.
    case http(target: [UInt8], match: ResponseMatch?)
    /// `grpc.health.v1.Health/Check` for this service. `orStatus`: a `grpc-status` other than 0 that passes too.
    case grpc(service: String, orStatus: Int?)
    /// A connection, with its TLS. nil: nothing is sent, and nothing expected.
    case tcp(match: StreamMatch?)
  }

  /// Milliseconds between the end of a check and the next one.
  public var interval = 5000
  /// Each check is delayed by a random time up to this, in milliseconds.
  public var jitter = 0
  /// Failures in a row after which a server is down.
  public var fails = 1
  /// Passes in a row after which a server that was down is up.
  public var passes = 1
  /// nil: the server's own port.
  public var port: UInt16?
  /// A server gets no requests before its first check has passed.
  public var isMandatory = false
  /// A server that was up before a reload stays up, even if the check has changed.
  public var isPersistent = false
  public var kind = Kind.http(target: [0x2F], match: nil)
  /// Milliseconds for a whole check of `stream` (`health_check_timeout`). A check of HTTP has the times of the location.
  public var timeout = 5000

  public init() {}
}

/// A `match` block of `stream`.
public struct StreamMatch: Sendable, Hashable {
  /// What the server's bytes must contain.
  public enum Expectation: Sendable, Hashable {
    case bytes([UInt8])
    case pattern(MatchPattern)
  }

  public var send: [UInt8] = []
  public var expected: Expectation?

  public init() {}
}

/// A `match` block: the tests that a response must pass, all of them.
public struct ResponseMatch: Sendable, Hashable {
  /// `status [!] CODE | FROM-TO …`
  public struct StatusTest: Sendable, Hashable {
    public var codes: [ClosedRange<UInt16>]
    public var isNegated: Bool
  }

  /// `header …`
  public struct FieldTest: Sendable, Hashable {
    public enum Demand: Sendable, Hashable {
      case isPresent, isAbsent
      /// At least one field has this value; or, negated, there are fields and none has it.
      case equals([UInt8], isNegated: Bool)
      case matches(MatchPattern, isNegated: Bool)
    }
    public var name: [UInt8]
    public var demand: Demand
  }

  /// `body ~ REGEX` or `body !~ REGEX`
  public struct BodyTest: Sendable, Hashable {
    public var pattern: MatchPattern
    public var isNegated: Bool
  }

  public var statuses: [StatusTest] = []
  public var fields: [FieldTest] = []
  public var bodies: [BodyTest] = []

  public init() {}
}

/// A compiled expression, equal to another one of the same text.
public struct MatchPattern: Sendable, Hashable {
  public let expression: RegularExpression
  private let isCaseless: Bool

  public init(_ expression: RegularExpression, isCaseless: Bool = false) {
    self.expression = expression
    self.isCaseless = isCaseless
  }

  public static func == (left: MatchPattern, right: MatchPattern) -> Bool {
    left.expression.pattern == right.expression.pattern && left.isCaseless == right.isCaseless
  }
  public func hash(into hasher: inout Hasher) { hasher.combine(expression.pattern) }
}
