public import Observability

/// `limit_req_zone` or `limit_conn_zone`: the states of one limit, which all workers share.
public struct LimitZoneSettings: Sendable, Hashable {
  public var name: String
  /// The key as the configuration spells it. A reload keeps the states of a zone with the same name, key and size.
  public var spelling: String
  /// A request whose key is empty isn't limited.
  public var key: Template
  /// The memory for states, in bytes.
  public var size: Int
  public init(name: String, spelling: String, key: Template, size: Int) {
    self.name = name
    self.spelling = spelling
    self.key = key
    self.size = size
  }
}

/// What `limit_req` and `limit_conn` have in common in a location.
public struct LimitResponseSettings: Sendable, Hashable {
  /// `limit_req_dry_run`, `limit_conn_dry_run`: counts and logs, and refuses nobody.
  public var isDryRun = false
  /// 400 to 599 (`limit_req_status`, `limit_conn_status`).
  public var status = 503
  /// The level of a refusal's line (`limit_req_log_level`, `limit_conn_log_level`).
  public var level = LogLevel.error
  public init() {}
}

/// `limit_req`: all lines of a location.
public struct RequestLimitSettings: Sendable, Hashable {
  /// One line. `rate` is in thousandths of a request per second, `burst` and `delay` are in thousandths of a request.
  public struct Line: Sendable, Hashable {
    public var zone: LimitZoneSettings
    public var rate: Int
    public var burst: Int
    /// Requests above the rate that are not delayed; `nodelay` has the largest number.
    public var delay: Int
    public init(zone: LimitZoneSettings, rate: Int, burst: Int, delay: Int) {
      self.zone = zone
      self.rate = rate
      self.burst = burst
      self.delay = delay
    }
  }

  public var lines: [Line]
  public var response: LimitResponseSettings
  public init(lines: [Line], response: LimitResponseSettings) {
    self.lines = lines
    self.response = response
  }
}

/// `limit_conn`: all lines of a location.
public struct ConnectionLimitSettings: Sendable, Hashable {
  /// One line. `count`: how many exchanges of one key may be in progress, 1 to 65,535.
  public struct Line: Sendable, Hashable {
    public var zone: LimitZoneSettings
    public var count: Int
    public init(zone: LimitZoneSettings, count: Int) {
      self.zone = zone
      self.count = count
    }
  }

  public var lines: [Line]
  public var response: LimitResponseSettings
  public init(lines: [Line], response: LimitResponseSettings) {
    self.lines = lines
    self.response = response
  }
}

/// `limit_rate` and `limit_rate_after`: the speed of one response.
public struct RateLimitSettings: Sendable, Hashable {
  /// Bytes per second, as a size of nginx; nil or 0: no limit.
  public var rate: Template?
  /// Bytes that go at full speed, as a size of nginx.
  public var free: Template?
  /// The slot of `set $limit_rate`, if the configuration has one anywhere.
  public var slot: Int?
  public init(rate: Template?, free: Template?, slot: Int?) {
    self.rate = rate
    self.free = free
    self.slot = slot
  }
}

/// The limits of a location; nil in `LocationSettings` if it has none.
public struct TrafficLimitSettings: Sendable, Hashable {
  public var requests: RequestLimitSettings?
  public var connections: ConnectionLimitSettings?
  public var rate: RateLimitSettings?
  public init(
    requests: RequestLimitSettings?, connections: ConnectionLimitSettings?, rate: RateLimitSettings?
  ) {
    self.requests = requests
    self.connections = connections
    self.rate = rate
  }
}
