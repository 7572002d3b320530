extension DirectiveSample {
  /// The samples of what goes to an upstream: body, connection and pace.
  static let outgoing: [String: DirectiveSample] = [
    "proxy_ignore_headers": .init("proxy_ignore_headers X-Accel-Limit-Rate vary;")
  ]
}
