/// Why the client gets nothing of a content. An exchange makes a response of it, and a session its result.
public enum RefusalCause: Equatable, Sendable {
  /// `allow` and `deny`
  case address
  /// A limit, with the status that requests get; 444: the connection is closed without a response.
  case limit(status: Int)
  /// No upstream can be reached, or none is trusted.
  case upstream
  /// A fault of the configuration, or of sallyport itself: the error log has the reason.
  case fault

  /// The status of a request.
  package var status: Int {
    switch self {
    case .address: 403
    case .limit(let status): status
    case .upstream: 502
    case .fault: 500
    }
  }
}
