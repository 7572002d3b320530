package import Crypto
package import Patterns
package import Traffic

/// A directive of nginx's rewrite module. The steps of a level run in the order of the file.
package enum RewriteStep: Sendable {
  case set(slot: Int, Template)
  /// `set $args`: the query of the request from here on.
  case setArguments(Template)
  case `return`(ReturnSettings)
  case rewrite(RewriteRule)
  case `break`
  case `if`(ConditionSettings)
}

/// `rewrite`.
package struct RewriteRule: Sendable {
  /// What follows a replacement.
  package enum Flag: Sendable, Hashable {
    /// The next directive of the level, and then a search for the location of the new path.
    case none
    /// The search for the location of the new path.
    case last
    /// The later phases, in this location.
    case `break`
    /// A response with this status, 301 or 302.
    case redirect(Int)
  }

  package var pattern: RegularExpression
  package var captures: [NamedCapture]
  /// The new path. For a redirect, the whole address.
  package var path: Template
  /// The text after the first `?`; nil without one, and for a redirect.
  package var arguments: Template?
  /// Whether the address of a redirect has a `?`, so that the request's own query follows a `&`.
  package var hasQuery: Bool
  /// Whether the request's own query is kept: the replacement doesn't end in `?`.
  package var keepsArguments: Bool
  package var flag: Flag
}

/// `return`: a status alone, a redirect, or a text.
package struct ReturnSettings: Sendable, Hashable {
  package enum Content: Sendable, Hashable {
    /// The standard page of the status; 444 closes without an answer.
    case standard
    /// A Location for 301, 302, 303, 307, 308.
    case redirect(Template)
    /// A body of type text/plain.
    case text(Template)
  }
  package var status: Int
  package var content: Content
}

/// The condition of an `if`.
package enum RewriteCondition: Sendable {
  /// Neither empty nor `0`.
  case isSet(Template)
  case equals(Template, Template)
  case matches(Template, RegularExpression, [NamedCapture])
  case file(Template, FileTest)
}

/// `if`.
package final class ConditionSettings: Sendable {
  package let condition: RewriteCondition
  /// The condition has a `!`.
  package let isNegated: Bool
  /// The directives of the rewrite module in the block.
  package let steps: [RewriteStep]
  /// The location that the request is in after the condition held; nil for an `if` of a server block.
  package let location: LocationSettings?

  package init(_ condition: RewriteCondition, isNegated: Bool, steps: [RewriteStep], location: LocationSettings?) {
    self.condition = condition
    self.isNegated = isNegated
    self.steps = steps
    self.location = location
  }
}
