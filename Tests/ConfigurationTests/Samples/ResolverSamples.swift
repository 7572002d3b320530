extension DirectiveSample {
  /// The samples of `resolver`, whose readers are targets with variables.
  static let resolver: [String: DirectiveSample] = {
    let target = "proxy_pass http://$host; "
    return [
      "resolver": .init("resolver 127.0.0.1;", or: "resolver 127.0.0.1 ipv6=off;", location: target),
      "resolver_timeout": .init(
        "resolver_timeout 3s;", beside: "resolver 127.0.0.1;", location: target),
    ]
  }()
}
