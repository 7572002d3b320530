extension DirectiveSample {
  /// The samples of subrequests.
  static let subrequests: [String: DirectiveSample] = [
    "auth_request": .init("auth_request /auth;"),
    "auth_request_set": .init(
      "auth_request_set $who $upstream_http_x_who;", or: "auth_request_set $who $upstream_http_x_user;",
      beside: "auth_request /auth;"),
    "mirror": .init("mirror /copy;"),
    "mirror_request_body": .init("mirror_request_body off;", beside: "mirror /copy;"),
    "log_subrequest": .init("log_subrequest on;"),
  ]
}
