import Forward
package import Patterns
import Traffic

/// `health_check`: how the servers of a location's group are checked.
///
/// Two settings are equal if they check alike, wherever the configuration has them.
package struct HealthCheckSettings: PassPart, RowSettings, Hashable {
  /// What a check asks, and what it expects.
  package enum Kind: Sendable, Hashable {
    /// GET of this target. nil: a status of 200 to 399 passes.
    case http(target: [UInt8], match: ResponseMatch?)
    /// `grpc.health.v1.Health/Check` for this service. `orStatus`: a `grpc-status` other than 0 that passes too.
    case grpc(service: String, orStatus: Int?)
    /// A connection, with its TLS. nil: nothing is sent, and nothing expected.
    case tcp(match: StreamMatch?)
  }

  /// Milliseconds between the end of a check and the next one.
  package var interval = 5000
  /// Each check is delayed by a random time up to this, in milliseconds.
  package var jitter = 0
  /// Failures in a row after which a server is down.
  package var fails = 1
  /// Passes in a row after which a server that was down is up.
  package var passes = 1
  /// nil: the server's own port.
  package var port: UInt16?
  /// A server gets no requests before its first check has passed.
  package var isMandatory = false
  /// A server that was up before a reload stays up, even if the check has changed.
  package var isPersistent = false
  package var kind = Kind.http(target: [0x2F], match: nil)
  /// Milliseconds for a whole check of `stream` (`health_check_timeout`). A check of HTTP has the times of the location.
  package var timeout = 5000

  package init() {}
}

/// A `match` block of `stream`.
package struct StreamMatch: Sendable, Hashable {
  /// What the server's bytes must contain.
  package enum Expectation: Sendable, Hashable {
    case bytes([UInt8])
    case pattern(MatchPattern)
  }

  package var send: [UInt8] = []
  package var expected: Expectation?

  package init() {}
}

/// A `match` block: the tests that a response must pass, all of them.
package struct ResponseMatch: Sendable, Hashable {
  /// `status [!] CODE | FROM-TO …`
  package struct StatusTest: Sendable, Hashable {
    package var codes: [ClosedRange<UInt16>]
    package var isNegated: Bool
  }

  /// `header …`
  package struct FieldTest: Sendable, Hashable {
    package enum Demand: Sendable, Hashable {
      case isPresent, isAbsent
      /// At least one field has this value; or, negated, there are fields and none has it.
      case equals([UInt8], isNegated: Bool)
      case matches(MatchPattern, isNegated: Bool)
    }
    package var name: [UInt8]
    package var demand: Demand
  }

  /// `body ~ REGEX` or `body !~ REGEX`
  package struct BodyTest: Sendable, Hashable {
    package var pattern: MatchPattern
    package var isNegated: Bool
  }

  package var statuses: [StatusTest] = []
  package var fields: [FieldTest] = []
  package var bodies: [BodyTest] = []

  package init() {}
}

/// A compiled expression, equal to another one of the same text.
package struct MatchPattern: Sendable, Hashable {
  package let expression: RegularExpression
  private let isCaseless: Bool

  package init(_ expression: RegularExpression, isCaseless: Bool = false) {
    self.expression = expression
    self.isCaseless = isCaseless
  }

  package static func == (left: MatchPattern, right: MatchPattern) -> Bool {
    left.expression.pattern == right.expression.pattern && left.isCaseless == right.isCaseless
  }
  package func hash(into hasher: inout Hasher) { hasher.combine(expression.pattern) }
}
