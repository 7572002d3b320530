/// The beginning of a client's connection in clear: it plays the server until the client has asked for TLS.
///
/// A value without a socket. The owner looks at the bytes in the socket without taking them, passes all of them to
/// `take`, and obeys the step. It stops when `next` isn't `.more`.
///
/// A client that asks for TLS waits for the answer. Bytes that came behind its request in clear are of somebody who
/// wants them to count as the client's own inside TLS (CVE-2021-23214, CVE-2011-0411), so the connection ends, and
/// nothing of that input is answered.
public struct ClientNegotiation: Sendable {
  public enum Next: Sendable, Equatable {
    /// Wait for more bytes. Those that aren't consumed are passed again, with what has followed.
    case more
    /// After the reply, TLS begins with the very next byte of the socket.
    case beginTLS
    /// PostgreSQL 17's `sslnegotiation=direct`: TLS begins with the first byte, which isn't consumed. The owner must
    /// demand ALPN `postgresql`, so that a client of another protocol isn't led here.
    case beginTLSDirectly
    /// PostgreSQL's CancelRequest, which its clients send in clear: pass these bytes to the upstream, and close.
    case cancel(request: [UInt8])
    /// Close after the reply. `reason`: for the error log, printable ASCII.
    case end(reason: String)
  }

  public typealias Step = NegotiationStep<Next>

  /// The most messages of one client before TLS.
  public static let messageLimit = 20
  /// The most bytes of a line with its end. RFC 5321 §4.5.3.1.4 has 512.
  public static let lineLimit = 2048
  /// The reason when bytes came behind a request for TLS, or behind another one that nothing may follow in clear.
  public static let injection = "the client sent bytes in clear behind a request after which it must wait"

  public let kind: NegotiatedProtocol
  /// The name of this host in greetings.
  let name: OwnName
  /// What has been decided; nil: nothing yet.
  private var ended: Next?
  private var messages = 0
  /// A GSSENCRequest has been refused.
  var hasAskedForGSS = false

  /// `name`: this host's name, for the greeting. Only its visible ASCII is used.
  public init(_ kind: NegotiatedProtocol, name: String) {
    self.kind = kind
    self.name = OwnName(name)
  }

  /// The most bytes that `take` needs to see at once: with so many, it always goes on.
  public var most: Int {
    switch kind {
    case .postgres: PostgresMessage.mostStartup
    case .smtp, .imap, .pop3: Self.lineLimit
    case .ldap: LDAPMessage.most
    }
  }

  /// What the server sends when it has accepted the connection.
  public var greeting: [UInt8] {
    switch kind {
    case .postgres, .ldap: []
    case .smtp: Array("220 \(name) ESMTP\r\n".utf8)
    case .imap: Array("* OK [CAPABILITY \(Self.imapCapabilities)] \(name) ready\r\n".utf8)
    case .pop3: Array("+OK \(name) ready\r\n".utf8)
    }
  }

  /// `input`: all bytes that are in the socket, from the first that hasn't been consumed.
  ///
  /// After a step that isn't `.more`, further calls consume nothing and say the same.
  public mutating func take(_ input: UnsafeRawBufferPointer) -> Step {
    if let ended { return Step(consumed: 0, reply: [], next: ended) }
    var consumed = 0
    var reply: [UInt8] = []
    // Each answer but the last one is to a message of at least one byte.
    while let answer = answer(to: UnsafeRawBufferPointer(rebasing: input[consumed...])) {
      guard answer.mayBeFollowed || answer.length == input.count - consumed else {
        return end(.end(reason: Self.injection), consumed: input.count, reply: [])
      }
      consumed += answer.length
      reply += answer.reply
      switch answer.next {
      case .more: continue
      // Bytes that stay in the socket would make its end a reset, which can overtake the reply.
      case .end: return end(answer.next, consumed: input.count, reply: reply)
      case .beginTLS, .beginTLSDirectly, .cancel: return end(answer.next, consumed: consumed, reply: reply)
      }
    }
    return Step(consumed: consumed, reply: reply, next: .more)
  }

  private mutating func end(_ next: Next, consumed: Int, reply: [UInt8]) -> Step {
    ended = next
    return Step(consumed: consumed, reply: reply, next: next)
  }

  // MARK: Messages

  /// What one message of the client leads to.
  struct Answer {
    /// Of the message, in bytes.
    var length: Int
    var reply: [UInt8]
    var next: Next
    /// Whether the client may send on without having seen the reply.
    var mayBeFollowed: Bool

    static func reply(_ reply: [UInt8], length: Int) -> Answer {
      Answer(length: length, reply: reply, next: .more, mayBeFollowed: true)
    }

    static func reply(_ reply: String, length: Int) -> Answer { .reply(Array(reply.utf8), length: length) }

    static func beginTLS(_ reply: [UInt8], length: Int) -> Answer {
      Answer(length: length, reply: reply, next: .beginTLS, mayBeFollowed: false)
    }

    static func beginTLS(_ reply: String, length: Int) -> Answer { .beginTLS(Array(reply.utf8), length: length) }

    static func end(_ reply: [UInt8], reason: String) -> Answer {
      Answer(length: 0, reply: reply, next: .end(reason: reason), mayBeFollowed: true)
    }

    static func end(_ reply: String, reason: String) -> Answer { .end(Array(reply.utf8), reason: reason) }
  }

  static let farewell = "the client ended the session before TLS"
  static let tooManyMessages = "the client sent more than \(messageLimit) messages before TLS"

  /// Counts a message. Returns whether it is one too many.
  mutating func isOneTooMany() -> Bool {
    messages += 1
    return messages > Self.messageLimit
  }

  /// The answer to the first message of the input; nil: it isn't complete.
  private mutating func answer(to input: UnsafeRawBufferPointer) -> Answer? {
    switch kind {
    case .postgres: return postgresAnswer(to: input)
    case .ldap: return ldapAnswer(to: input)
    case .smtp, .imap, .pop3: break
    }
    switch ClearLine.first(of: input, limit: Self.lineLimit) {
    case .incomplete: return nil
    case .tooLong:
      return .end(
        fault("Line too long"), reason: "the client sent a line longer than \(Self.lineLimit) bytes before TLS")
    case .badEnd:
      return .end(
        fault("Lines must end with CR LF"), reason: "the client sent a CR or LF that is no line end before TLS")
    case .line(let text, let length):
      guard !isOneTooMany() else {
        return .end(
          kind == .smtp ? "421 4.7.0 \(name) Too many commands\r\n" : fault("Too many commands"),
          reason: Self.tooManyMessages)
      }
      return switch kind {
      case .smtp: smtpAnswer(to: text, length)
      case .imap: imapAnswer(to: text, length)
      case .pop3, .postgres, .ldap: pop3Answer(to: text, length)
      }
    }
  }

  /// The last line for a client whose line can't be read.
  private func fault(_ text: String) -> String {
    switch kind {
    case .smtp: "500 5.5.2 \(text)\r\n"
    case .imap: "* BYE \(text)\r\n"
    case .pop3, .postgres, .ldap: "-ERR \(text)\r\n"
    }
  }
}
