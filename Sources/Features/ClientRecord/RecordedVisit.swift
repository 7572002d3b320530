/// How a client was judged when it came, as a record has it.
package enum RecordedVerdict: String, Sendable, CaseIterable {
  /// A chain verified.
  case verified
  /// A pin vouched for the key.
  case pinned
  /// `optional_no_ca`: let in, and nothing vouched for it.
  case unverified
  /// `ssl_verify_report_only`: let in, although it would be refused.
  case reported
  /// Its certificate was refused.
  case refused
  /// Its certificate verified, and the access rules of the server block denied it.
  case ruled

  package var isLetIn: Bool {
    switch self {
    case .verified, .pinned, .unverified, .reported: true
    case .refused, .ruled: false
    }
  }
}

/// What a client offered and settled in a handshake.
package struct RecordedHandshake: Sendable, Hashable {
  /// `TLSv1.3`
  package var version = ""
  package var cipher = ""
  package var group = ""
  /// The groups that the client offered, as nginx's $ssl_curves.
  package var groups = ""
  /// The signature schemes that it offered, as nginx's $ssl_sigalgs.
  package var signatures = ""
  /// The suites that it offered, as nginx's $ssl_ciphers; empty for TLS 1.3.
  package var ciphers = ""
  package init() {}
}

/// The visits of one client at one name of one listener: its handshakes, or its requests behind one front.
package struct RecordedVisit: Sendable, Equatable {
  /// Who came, and where.
  package struct Key: Sendable, Hashable {
    /// The SHA-256 of each certificate that the client sent, the leaf first.
    package var chain: [[UInt8]]
    /// The address that the listener is configured with.
    package var listener: String
    /// The server name of the ClientHello, in lower case; empty without one. Behind a front, the host of the request.
    package var name: String
    package var isStream: Bool
    /// Who relayed the client's certificate: the subject of the front's own one, or its line of the configuration. Empty: the
    /// client came itself.
    package var front: String

    package init(chain: [[UInt8]], listener: String, name: String, isStream: Bool, front: String = "") {
      self.chain = chain
      self.listener = listener
      self.name = name
      self.isStream = isStream
      self.front = front
    }
  }

  /// The name of the server block that has judged the client last; empty for one without a name.
  package var server = ""
  /// Seconds since 1970.
  package var first: Int64
  package var last: Int64
  package var admitted = 0
  package var refused = 0
  /// How many of both resumed a session.
  package var resumed = 0
  /// Of the last visit.
  package var verdict: RecordedVerdict
  /// Why the last visit was not let in, or would not have been; empty otherwise.
  package var reason = ""
  package var handshake = RecordedHandshake()

  package init(at moment: Int64, _ verdict: RecordedVerdict, reason: String = "") {
    (first, last) = (moment, moment)
    self.verdict = verdict
    self.reason = reason
  }

  package var count: Int { admitted.addingReportingOverflow(refused).partialValue }

  /// Counts one more visit, which isn't before the others.
  package mutating func count(at moment: Int64, _ verdict: RecordedVerdict, reason: String, isResumed: Bool) {
    last = max(last, moment)
    (self.verdict, self.reason) = (verdict, reason)
    if verdict.isLetIn { admitted &+= 1 } else { refused &+= 1 }
    if isResumed { resumed &+= 1 }
  }

  /// Adds what another process, or the same one later, has seen of the same client.
  package mutating func add(_ other: RecordedVisit) {
    let former = self
    if other.last >= last { self = other }
    (first, last) = (min(former.first, other.first), max(former.last, other.last))
    admitted = Self.sum(former.admitted, other.admitted)
    refused = Self.sum(former.refused, other.refused)
    resumed = Self.sum(former.resumed, other.resumed)
  }

  private static func sum(_ one: Int, _ other: Int) -> Int {
    let (sum, isTooLarge) = one.addingReportingOverflow(other)
    return isTooLarge ? .max : sum
  }
}
