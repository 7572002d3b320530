public import Crypto
public import Patterns

/// A directive of nginx's rewrite module. The steps of a level run in the order of the file.
public enum RewriteStep: Sendable {
  case set(slot: Int, Template)
  /// `set $args`: the query of the request from here on.
  case setArguments(Template)
  case `return`(ReturnSettings)
  case rewrite(RewriteRule)
  case `break`
  case `if`(ConditionSettings)
}

/// `rewrite`.
public struct RewriteRule: Sendable {
  /// What follows a replacement.
  public enum Flag: Sendable, Hashable {
    /// The next directive of the level, and then a search for the location of the new path.
    case none
    /// The search for the location of the new path.
    case last
    /// The later phases, in this location.
    case `break`
    /// A response with this status, 301 or 302.
    case redirect(Int)
  }

  public var pattern: RegularExpression
  public var captures: [NamedCapture]
  /// The new path. For a redirect, the whole address.
  public var path: Template
  /// The text after the first `?`; nil without one, and for a redirect.
  public var arguments: Template?
  /// Whether the address of a redirect has a `?`, so that the request's own query follows a `&`.
  public var hasQuery: Bool
  /// Whether the request's own query is kept: the replacement doesn't end in `?`.
  public var keepsArguments: Bool
  public var flag: Flag

  public init(
    pattern: RegularExpression, captures: [NamedCapture], path: Template, arguments: Template?, hasQuery: Bool,
    keepsArguments: Bool, flag: Flag
  ) {
    self.pattern = pattern
    self.captures = captures
    self.path = path
    self.arguments = arguments
    self.hasQuery = hasQuery
    self.keepsArguments = keepsArguments
    self.flag = flag
  }
}

/// The condition of an `if`.
public enum RewriteCondition: Sendable {
  /// Neither empty nor `0`.
  case isSet(Template)
  case equals(Template, Template)
  case matches(Template, RegularExpression, [NamedCapture])
  case file(Template, FileTest)
}

/// `if`.
public final class ConditionSettings: Sendable {
  public let condition: RewriteCondition
  /// The condition has a `!`.
  public let isNegated: Bool
  /// The directives of the rewrite module in the block.
  public let steps: [RewriteStep]
  /// The location that the request is in after the condition held; nil for an `if` of a server block.
  public let location: LocationSettings?

  public init(_ condition: RewriteCondition, isNegated: Bool, steps: [RewriteStep], location: LocationSettings?) {
    self.condition = condition
    self.isNegated = isNegated
    self.steps = steps
    self.location = location
  }
}

/// `limit_except`: the settings for requests with other methods than the listed ones.
public struct MethodLimit: Sendable {
  /// Upper-case names.
  public var methods: [[UInt8]]
  public var location: LocationSettings
  public init(methods: [[UInt8]], location: LocationSettings) {
    self.methods = methods
    self.location = location
  }
}

/// Settings of a location about the way of a request through the phases.
public struct FlowSettings: Sendable {
  /// `recursive_error_pages`
  public var recursesErrorPages = false
  /// `rewrite_log`
  public var logsRewrites = false
  /// `uninitialized_variable_warn`
  public var warnsOfUnset = true
  /// `limit_except`
  public var methodLimit: MethodLimit?
  /// `valid_referers`; nil without a line: every Referer is valid.
  public var referers: RefererSettings?
  /// `trace_context`
  public var trace = TraceMode.off
  public init() {}
}

/// What sallyport does with the W3C trace context of requests: `trace_context`.
public enum TraceMode: String, Sendable, Hashable {
  /// The client's fields go on as any others.
  case off
  /// A valid traceparent of the client is continued, otherwise a trace begins.
  case on
  /// Every request begins a trace: for clients that must not choose identifiers.
  case restart
}

extension LocationSettings {
  /// The locations that requests reach only by way of this one: those of its `if` and of its `limit_except`.
  public var conditional: [LocationSettings] {
    let blocks = rewrite.compactMap { step in
      if case .if(let block) = step { block.location } else { nil }
    }
    return blocks + (flow.methodLimit.map { [$0.location] } ?? [])
  }
}
