package import Identity
package import Observability
package import Patterns
package import Transport

/// One thing that a feature asks of who wants the content of a location, for `sallyport ways`.
package struct AccessCondition: Sendable {
  /// What is asked for. Each kind is harder to have than those before it.
  package enum Kind: Int, Sendable, Comparable, CaseIterable {
    /// Everybody can have it: a method, a rate.
    case form
    /// What the request says, which a variable or a pattern judges.
    case variable
    case address
    /// The answer of a server that is asked about the request.
    case asked
    case password
    case token
    case signature
    case certificate
    /// Nobody has it: `deny all`, `return 403`.
    case closed

    package static func < (one: Kind, other: Kind) -> Bool { one.rawValue < other.rawValue }
  }

  /// When it is asked for, which decides what skips it.
  package enum Moment: Int, Sendable, Comparable {
    /// At each entry to a location, even by an internal redirect or a subrequest.
    case entry
    /// Among the rewrite directives, which subrequests run too.
    case rewrite
    /// Before the access phase: limits, which refuse nobody for who he is. No `satisfy` makes them one of several.
    case limit
    /// In the access phase, which subrequests skip, and where `satisfy any` may make one condition enough.
    case access
    /// Behind the access phase.
    case behind
    /// By the content itself.
    case content

    package static func < (one: Moment, other: Moment) -> Bool { one.rawValue < other.rawValue }
  }

  /// What it says to one request.
  package enum Answer: Sendable, Equatable {
    case admits
    /// No objection; with `satisfy any`, that isn't enough where another condition refuses.
    case silent
    case refuses
    /// Something outside the configuration decides, or a pattern that gave up.
    case unknown
  }

  package let kind: Kind
  package let phase: Moment
  package let words: String
  /// The line that asks; nil: several lines do.
  package let place: SourceLocation?
  /// It is a rule on certificates, which a server block may only report.
  package let isOfCertificates: Bool
  /// Who could pass, for a trial.
  package let examples: [Example]
  private let judge: @Sendable (AccessSubject) -> Answer

  /// Somebody who passes the condition.
  package enum Example: Sendable {
    case address(SocketAddress)
    case method(String)
    /// A client whose certificate the rule describes.
    case rule(ClientRule)
  }

  package init(
    _ kind: Kind, _ phase: Moment, _ words: String, at place: SourceLocation? = nil, examples: [Example] = [],
    isOfCertificates: Bool = false, judge: @escaping @Sendable (AccessSubject) -> Answer
  ) {
    self.examples = examples
    self.isOfCertificates = isOfCertificates
    self.kind = kind
    self.phase = phase
    self.words = words
    self.place = place
    self.judge = judge
  }

  /// A condition that only something outside the configuration can decide. A client that can't have what is asked for is
  /// refused.
  package init(asking kind: Kind, _ phase: Moment, _ words: String, at place: SourceLocation? = nil) {
    self.init(kind, phase, words, at: place) { $0.lacks.contains(kind) ? .refuses : .unknown }
  }

  /// How often or how many at a time, which no single request fails.
  package static func limit(_ words: String) -> AccessCondition {
    AccessCondition(.form, .limit, words) { _ in .silent }
  }

  package func answer(to trial: AccessSubject) -> Answer { judge(trial) }
}

/// Who wants in, as far as conditions ask. What isn't known is nil: it makes answers `unknown`.
package struct AccessSubject {
  /// The client's address, as rules see it.
  package var address: SocketAddress?
  package var client: ClientRules.Client
  /// The value of `$ssl_client_verify`; nil: not known.
  package var verification: String?
  /// The method as variables say it.
  package var method: String?
  package var isTLS: Bool
  /// What the client certainly doesn't have.
  package var lacks: Set<AccessCondition.Kind> = []
  /// For patterns; of the caller's own thread.
  package let scratch = RegularExpression.Scratch()

  package init(
    address: SocketAddress? = nil, client: ClientRules.Client = .anonymous, verification: String? = "NONE",
    method: String? = "GET", isTLS: Bool = true, lacks: Set<AccessCondition.Kind> = []
  ) {
    self.address = address
    self.client = client
    self.verification = verification
    self.method = method
    self.isTLS = isTLS
    self.lacks = lacks
  }
}
