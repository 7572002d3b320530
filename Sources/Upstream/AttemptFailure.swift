public import HTTP
public import Transport

/// What went wrong with one try at one server of an upstream group.
public enum AttemptFailure: Error, Sendable {
  /// No server of the group may be used now.
  case noServer
  case connect(SocketError)
  /// `worker_connections` are used up, and no connection could be ended for this one.
  case noRoom
  case connectTimeout
  /// The proxy with this name, through which the upstream is reached, made no tunnel. No byte of the request went out.
  case proxy(String, ProxyFailure)
  /// sallyport refused the upstream, or the handshake failed. No byte of the request went out.
  case tls(String)
  case sendTimeout
  case readTimeout
  /// The connection ended before a whole head came.
  case closedBeforeHead
  /// The socket failed, or the TLS session after the handshake, mostly by an alert.
  case broken(String)
  case invalidHead(HeadError)
  /// The upstream has not processed the request, and says so: REFUSED_STREAM, or a GOAWAY for earlier streams
  /// (RFC 9113 §8.7). Any request may be sent again.
  case refusedStream
  /// The upstream has reset the stream with another code. Its session goes on, so the server is not just gone.
  case reset(String)
  /// The stream was reset because of what the upstream sent on it.
  case invalidStream(String)
  /// The body ended early, stopped coming or was malformed, after the head had gone on to the client.
  case invalidBody(String)
  /// Bytes came before a request, so it is unknown which request they belong to.
  case unsolicitedBytes

  /// Why there is no tunnel.
  public enum ProxyFailure: Error, Sendable {
    case connect(SocketError)
    case timeout
    /// What it said, or did, in place of making one.
    case answer(String)
  }

  /// The status of the response if no other server is tried.
  public var status: Int {
    switch self {
    case .connectTimeout, .proxy(_, .timeout), .sendTimeout, .readTimeout: 504
    case .connect(let error) where error.isOfLocalAddress, .proxy(_, .connect(let error)) where error.isOfLocalAddress:
      500
    default: 502
    }
  }

  /// The status of the response after an attempt that repeats one which the upstream has refused unprocessed
  /// (`repeatsRefusal`). nginx repeats none, and answers for the refusal: a connection that can't be made for the repetition
  /// changes nothing of that.
  public func status(repeatsRefusal: Bool) -> Int {
    guard repeatsRefusal else { return status }
    return switch self {
    case .noServer, .noRoom, .connect, .connectTimeout, .proxy, .tls: AttemptFailure.refusedStream.status
    default: status
    }
  }

  /// The condition of `proxy_next_upstream` that the failure meets.
  public var condition: RetryConditions {
    switch self {
    case .noServer, .invalidBody: []
    // As in nginx: another server can't be reached from that address either.
    case .connect(let error) where error.isOfLocalAddress, .proxy(_, .connect(let error)) where error.isOfLocalAddress:
      []
    case .connectTimeout, .proxy(_, .timeout), .sendTimeout, .readTimeout: .timeout
    // As in nginx, a RST_STREAM in place of a head is an invalid one.
    case .invalidHead, .invalidStream, .unsolicitedBytes, .reset: .invalidHeader
    // nginx counts it as the others. RFC 9113 §8.7 lets any request be sent again, so `error` is enough, too.
    case .refusedStream: [.error, .invalidHeader]
    case .noRoom, .connect, .proxy, .tls, .closedBeforeHead, .broken: .error
    }
  }

  /// What broke the connection, for a failure after the response's head.
  var reason: String {
    switch self {
    case .broken(let reason), .reset(let reason), .invalidStream(let reason): reason
    default: "upstream prematurely closed connection"
    }
  }

  /// For the error log, in nginx's words where it has some.
  public var description: String {
    switch self {
    case .noServer: "no live upstreams while connecting to upstream"
    case .noRoom: "worker_connections are not enough while connecting to upstream"
    case .connect(let error): "\(error) while connecting to upstream"
    case .connectTimeout: "upstream timed out (110: Connection timed out) while connecting to upstream"
    case .proxy(let name, .connect(let error)): "\(error) while connecting to the proxy \(name)"
    case .proxy(let name, .timeout):
      "upstream timed out (110: Connection timed out) while connecting to upstream through the proxy \(name)"
    case .proxy(let name, .answer(let reason)):
      "no tunnel: \(reason) while connecting to upstream through the proxy \(name)"
    case .tls(let reason): "\(reason) while SSL handshaking to upstream"
    case .sendTimeout: "upstream timed out (110: Connection timed out) while sending request to upstream"
    case .readTimeout: "upstream timed out (110: Connection timed out) while reading response header from upstream"
    case .closedBeforeHead: "upstream prematurely closed connection while reading response header from upstream"
    case .broken(let reason), .reset(let reason), .invalidStream(let reason):
      "\(reason) while reading response header from upstream"
    case .refusedStream: "upstream refused the stream while sending request to upstream"
    case .invalidHead(let error):
      "upstream sent invalid header: \(error.reason) while reading response header from upstream"
    case .invalidBody(let reason): "\(reason) while reading upstream"
    case .unsolicitedBytes: "upstream sent bytes before a request was made; the connection is not used"
    }
  }
}

/// Whether an attempt that failed may be followed by another. Pure; RFC 9110 §9.2.2 and `proxy_next_upstream`.
public struct RetryPolicy: Sendable {
  public var settings: RetrySettings
  /// Servers in the group.
  public var servers: Int

  public init(settings: RetrySettings, servers: Int) {
    self.settings = settings
    self.servers = servers
  }

  /// What an exchange knows at the time of a failure.
  public struct Situation: Sendable {
    public var method: HTTP.Method
    /// Bytes of the request may have reached the server.
    public var requestBegun: Bool
    /// The body can be sent again from the start (none, or all of it is kept).
    public var bodyReplayable: Bool
    /// Bytes of a final response went to the client.
    public var responseBegun: Bool
    /// The connection had served before, and no byte of a response came.
    public var onKeptConnection: Bool
    public var attempts: Int
    /// Kept connections of this exchange that were found dead.
    public var deadConnections: Int
    /// Milliseconds since the first attempt began.
    public var elapsed: UInt64

    public init(
      method: HTTP.Method, requestBegun: Bool, bodyReplayable: Bool, responseBegun: Bool, onKeptConnection: Bool,
      attempts: Int, deadConnections: Int, elapsed: UInt64
    ) {
      self.method = method
      self.requestBegun = requestBegun
      self.bodyReplayable = bodyReplayable
      self.responseBegun = responseBegun
      self.onKeptConnection = onKeptConnection
      self.attempts = attempts
      self.deadConnections = deadConnections
      self.elapsed = elapsed
    }
  }

  public enum Decision: Sendable, Equatable {
    /// The server that was just tried may be tried again: only its kept connection was dead.
    case sameServer
    case nextServer
    case giveUp
  }

  public func decide(_ condition: RetryConditions, _ situation: Situation) -> Decision {
    guard !situation.responseBegun, situation.bodyReplayable || !situation.requestBegun else { return .giveUp }
    let mayRepeat =
      !situation.requestBegun || situation.method.isIdempotent || settings.conditions.contains(.nonIdempotent)
    guard mayRepeat else { return .giveUp }
    if settings.timeout > 0 && situation.elapsed >= UInt64(settings.timeout) { return .giveUp }
    // nginx doesn't count a dead kept connection as a try. sallyport allows that once.
    if situation.onKeptConnection && condition.contains(.error) && situation.deadConnections <= 1 { return .sameServer }
    guard !settings.conditions.isDisjoint(with: condition) else { return .giveUp }
    let allowed = settings.tries == 0 ? servers : min(settings.tries, servers)
    return situation.attempts < allowed ? .nextServer : .giveUp
  }
}

extension RetryConditions {
  /// The condition that an upstream's status meets.
  public init(status: UInt16) {
    switch status {
    case 500: self = .http500
    case 502: self = .http502
    case 503: self = .http503
    case 504: self = .http504
    case 403: self = .http403
    case 404: self = .http404
    case 429: self = .http429
    default: self = []
    }
  }
}

extension StreamFailure {
  /// The reason why a transport failed; nil if the peer only closed the connection.
  var brokenReason: String? {
    switch self {
    case .protocolError(let reason): reason
    case .socket(let error): error.description
    case .truncated: nil
    }
  }
}
