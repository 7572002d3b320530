/// The beginning of a connection to an upstream server in clear: it plays the client until the server has agreed to
/// TLS, or reads the server's greeting only.
///
/// A value without a socket, used as `ClientNegotiation` is. It fails closed: a server that refuses TLS, offers none, or
/// says anything that isn't expected, ends the connection. So do bytes behind the server's agreement, and an answer that
/// has come before its question was sent: somebody on the way wants them to count as the server's own inside TLS, or the
/// connection to stay in clear (CVE-2021-23222, CVE-2021-38371, CVE-2026-42246).
public struct UpstreamNegotiation: Sendable {
  public enum Goal: Sendable, Equatable {
    case tls
    /// The connection stays as it is, but the client has had our greeting, so that the server's must not reach it. What
    /// follows the greeting isn't judged and not consumed. There is none in PostgreSQL and LDAP.
    case greetingOnly
  }

  public enum Next: Sendable, Equatable {
    /// Wait for more bytes. Those that aren't consumed are passed again, with what has followed.
    case more
    /// TLS begins with the very next byte of the socket.
    case beginTLS
    /// The greeting has been read. Bytes that weren't consumed belong to the session.
    case done
    /// Close, and send nothing more. `reason`: for the error log, printable ASCII, with what the server said.
    case end(reason: String)
  }

  public typealias Step = NegotiationStep<Next>

  /// The most bytes and lines of a server before TLS, or of its greeting.
  public static let most = 64 << 10
  public static let lineLimit = 100
  /// The reasons when bytes came behind the server's agreement, or before our question.
  public static let injection = "the upstream server sent bytes in clear behind its agreement to TLS"
  public static let earlyAnswer = "the upstream server sent an answer before the question"

  public let kind: NegotiatedProtocol
  public let goal: Goal
  /// The server's greeting as it came, all its lines, also if it refuses the session. A client that hasn't had a
  /// greeting of ours gets it. Empty in PostgreSQL and LDAP.
  public private(set) var greeting: [UInt8] = []

  /// What we say to be in EHLO.
  let name: OwnName
  private var ended: Next?
  var stage = Stage.greeting
  /// The lines of SMTP's reply that have come; nil: none.
  var reply: SMTPReply?
  private var consumedBytes = 0
  private var lines = 0

  enum Stage {
    case greeting
    /// EHLO has been sent.
    case hello
    /// TLS has been asked for.
    case agreement
  }

  /// `name`: this host's name, for EHLO (RFC 5321 §4.1.1.1). Only its visible ASCII is used.
  public init(_ kind: NegotiatedProtocol, goal: Goal, name: String = "localhost") {
    self.kind = kind
    self.goal = goal
    self.name = OwnName(name)
    switch (kind, goal) {
    case (.postgres, .greetingOnly), (.ldap, .greetingOnly): ended = .done
    case (.postgres, .tls), (.ldap, .tls): stage = .agreement
    case (.smtp, _), (.imap, _), (.pop3, _): break
    }
  }

  /// Whether the goal is reached without a byte of the server: `take` then says `.done` at once.
  public var isDone: Bool { ended == .done }

  /// What is sent at once, before the server says anything.
  public var opening: [UInt8] {
    switch (kind, goal) {
    case (.postgres, .tls): PostgresMessage.sslRequest
    case (.ldap, .tls): LDAPMessage.startTLSRequest(Self.ldapMessageID)
    case (.smtp, _), (.imap, _), (.pop3, _), (_, .greetingOnly): []
    }
  }

  /// `input`: all bytes that are in the socket, from the first that hasn't been consumed.
  ///
  /// After a step that isn't `.more`, further calls consume nothing and say the same.
  public mutating func take(_ input: UnsafeRawBufferPointer) -> Step {
    if let ended { return Step(consumed: 0, reply: [], next: ended) }
    switch kind {
    case .postgres, .ldap:
      switch kind == .postgres ? postgresTurn(input) : ldapTurn(input) {
      case .wait: return Step(consumed: 0, reply: [], next: .more)
      case .agreed(let length): return agree(length, input)
      case .refused(let reason): return end(.end(reason: reason), input.count)
      }
    case .smtp, .imap, .pop3: return takeLines(input)
    }
  }

  private mutating func takeLines(_ input: UnsafeRawBufferPointer) -> Step {
    var consumed = 0
    var question: [UInt8] = []
    while true {
      let rest = UnsafeRawBufferPointer(rebasing: input[consumed...])
      // The server can't have read a question that isn't sent yet. Only IMAP's servers speak without being asked.
      if !question.isEmpty, let first = rest.first, kind != .imap || first != UInt8(ascii: "*") {
        return end(.end(reason: Self.earlyAnswer), input.count)
      }
      switch ClearLine.first(of: rest, limit: Self.most - consumedBytes) {
      case .incomplete: return Step(consumed: consumed, reply: question, next: .more)
      case .tooLong:
        return end(.end(reason: "the upstream server sent more than \(Self.most) bytes before TLS"), input.count)
      case .badEnd:
        return end(.end(reason: "the upstream server sent a CR or LF that is no line end before TLS"), input.count)
      case .line(let text, let length):
        consumed += length
        consumedBytes += length
        lines += 1
        if stage == .greeting { greeting += rest.prefix(length) }
        guard lines <= Self.lineLimit else {
          return end(.end(reason: "the upstream server sent more than \(Self.lineLimit) lines before TLS"), input.count)
        }
        switch turn(text) {
        case .wait: continue
        case .ask(let bytes): question = bytes
        case .agreed: return agree(consumed, input)
        case .done: return end(.done, consumed)
        case .refused(let reason): return end(.end(reason: reason), input.count)
        }
      }
    }
  }

  private mutating func agree(_ length: Int, _ input: UnsafeRawBufferPointer) -> Step {
    guard length == input.count else { return end(.end(reason: Self.injection), input.count) }
    return end(.beginTLS, length)
  }

  private mutating func end(_ next: Next, _ consumed: Int) -> Step {
    ended = next
    return Step(consumed: consumed, reply: [], next: next)
  }

  /// What a line of the server leads to.
  enum LineTurn {
    case wait
    case ask([UInt8])
    case agreed, done
    case refused(String)

    static func ask(_ line: String) -> LineTurn { .ask(Array(line.utf8)) }
  }

  private mutating func turn(_ line: [UInt8]) -> LineTurn {
    switch kind {
    case .smtp: smtpTurn(line)
    case .imap: imapTurn(line)
    case .pop3, .postgres, .ldap: pop3Turn(line)
    }
  }

  // MARK: Reasons

  static func refusal(_ said: [UInt8]) -> String { "the upstream server refused TLS: \(HeardText.quoted(said))" }
  static func unexpected(_ said: some Sequence<UInt8>) -> String {
    "the upstream server said \(HeardText.quoted(said)), which isn't expected before TLS"
  }
  static func refusedSession(_ said: [UInt8]) -> String {
    "the upstream server refused the session: \(HeardText.quoted(said))"
  }
}
