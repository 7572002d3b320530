import Forward
package import Observability
package import Traffic

/// `limit_req_zone` or `limit_conn_zone`: the states of one limit, which all workers share.
package struct LimitZoneSettings: Sendable, Hashable {
  package var name: String
  /// The key as the configuration spells it. A reload keeps the states of a zone with the same name, key and size.
  package var spelling: String
  /// A request whose key is empty isn't limited.
  package var key: Template
  /// The memory for states, in bytes.
  package var size: Int
  /// The store that counts for all machines; nil: this process alone counts.
  package var store: StoreUse?

  /// What makes two zones the same one.
  struct Identity: Hashable {
    let name: String
    let spelling: String
    let size: Int
  }

  var identity: Identity { Identity(name: name, spelling: spelling, size: size) }
}

/// What `limit_req` and `limit_conn` have in common in a location.
package struct LimitResponseSettings: Sendable, Hashable {
  /// `limit_req_dry_run`, `limit_conn_dry_run`: counts and logs, and refuses nobody.
  package var isDryRun = false
  /// 400 to 599 (`limit_req_status`, `limit_conn_status`).
  package var status = 503
  /// The level of a refusal's line (`limit_req_log_level`, `limit_conn_log_level`).
  package var level = LogLevel.error
  package init() {}

  /// What the limit asks of a way, in these words; a dry run asks for nothing.
  func ways(_ words: [String]) -> LocationWays {
    isDryRun ? LocationWays() : LocationWays(conditions: words.map { .limit($0) })
  }
}

/// The bounds of nginx on a limit's key.
enum LimitKey {
  static let requestBytes = 65_535
  static let connectionBytes = 255

  /// Whether the limit applies: an empty key isn't limited, and a key that is too long is logged and isn't, either.
  static func counts(_ key: [UInt8], upTo bound: Int, _ spelling: String, _ transaction: Transaction) -> Bool {
    if key.count <= bound { return !key.isEmpty }
    transaction.log(
      .error,
      "the value of the \"\(spelling)\" key is more than \(bound) bytes: \"\(LogEscape.text(Array(key.prefix(256))))…\""
    )
    return false
  }
}
