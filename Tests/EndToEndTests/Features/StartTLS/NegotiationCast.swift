import TestSupport

/// The protocols in which TLS is asked for, and what a test says in them.
enum Spoken: String, CaseIterable, Sendable {
  case postgres, smtp, imap, pop3, ldap

  /// What a client sends to ask for TLS.
  var request: [UInt8] {
    switch self {
    case .postgres: [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F]
    case .smtp: Array("STARTTLS\r\n".utf8)
    case .imap: Array("a STARTTLS\r\n".utf8)
    case .pop3: Array("STLS\r\n".utf8)
    case .ldap: LDAP.message(1, LDAP.startTLS)
    }
  }

  /// What a server sends before it is asked anything.
  var greeting: String {
    switch self {
    case .postgres, .ldap: ""
    case .smtp: "220 up.test ESMTP\r\n"
    case .imap: "* OK ready\r\n"
    case .pop3: "+OK ready\r\n"
    }
  }

  /// What a server sends when it agrees to TLS.
  var agreement: [UInt8] {
    switch self {
    case .postgres: [UInt8(ascii: "S")]
    case .smtp: Array("220 go\r\n".utf8)
    case .imap: Array("a1 OK go\r\n".utf8)
    case .pop3: Array("+OK go\r\n".utf8)
    case .ldap: LDAP.message(1, LDAP.result(0x78, 0))
    }
  }

  /// What a client says that asks for no TLS, and what it is told.
  var unasked: (said: [UInt8], answer: String) {
    switch self {
    case .postgres: (Postgres.startup, "FATAL")
    case .smtp: (Array("MAIL FROM:<a@b>\r\n".utf8), "530 5.7.0 Must issue a STARTTLS command first\r\n")
    case .imap: (Array("a LOGIN alice s3cr3t\r\n".utf8), "a NO [PRIVACYREQUIRED] TLS is required\r\n")
    case .pop3: (Array("USER alice\r\n".utf8), "-ERR TLS is required, use STLS\r\n")
    case .ldap: (LDAP.message(1, LDAP.bind), "TLS is required: use StartTLS first")
    }
  }

  /// Plays the server of this protocol until the proxy has asked for TLS, as far as its agreement; then `agrees`.
  func ask(_ wire: Wire, offers: Bool = true, _ agrees: (Wire) throws -> Void) throws {
    try wire.write(greeting)
    switch self {
    case .postgres: _ = try wire.read(exactly: 8)
    case .smtp:
      guard try wire.line().hasPrefix("EHLO ") else { throw WireError.malformed("no EHLO") }
      try wire.write(offers ? "250-up.test\r\n250 STARTTLS\r\n" : "250 up.test\r\n")
      guard try wire.line() == "STARTTLS" else { throw WireError.malformed("no STARTTLS") }
    case .imap: guard try wire.line() == "a1 STARTTLS" else { throw WireError.malformed("no STARTTLS") }
    case .pop3: guard try wire.line() == "STLS" else { throw WireError.malformed("no STLS") }
    case .ldap: _ = try LDAP.read(wire)
    }
    try agrees(wire)
  }
}

/// As much of LDAP as tests need: short messages with numbers below 128 (RFC 4511).
enum LDAP {
  static let startTLS: [UInt8] = {
    let name = Array("1.3.6.1.4.1.1466.20037".utf8)
    return [0x77, UInt8(name.count + 2), 0x80, UInt8(name.count)] + name
  }()
  /// Anonymous.
  static let bind: [UInt8] = [0x60, 7, 2, 1, 3, 4, 0, 0x80, 0]

  static func message(_ id: UInt8, _ operation: [UInt8]) -> [UInt8] {
    [0x30, UInt8(operation.count + 3), 2, 1, id] + operation
  }

  static func result(_ operation: UInt8, _ code: UInt8) -> [UInt8] { [operation, 7, 0x0A, 1, code, 4, 0, 4, 0] }

  /// A message: its number and the tag of its operation.
  static func read(_ wire: Wire) throws -> (id: UInt8, operation: UInt8)? {
    guard let head = try? wire.read(exactly: 2) else { return nil }
    var length = Int(head[1])
    if length > 127 {
      length = try wire.read(exactly: length & 127).reduce(0) { $0 << 8 | Int($1) }
    }
    let body = try wire.read(exactly: length)
    return (body[2], body[3])
  }

  /// Answers as a server with one empty entry does.
  static func serve(_ wire: Wire) throws {
    while let (id, operation) = try read(wire) {
      switch operation {
      case 0x60: try wire.write(message(id, result(0x61, 0)))
      case 0x63:
        try wire.write(message(id, [0x64, 10, 4, 6] + Array("dc=tes".utf8) + [0x30, 0]))
        try wire.write(message(id, result(0x65, 0)))
      default: return
      }
    }
  }
}

/// As much of PostgreSQL's protocol as tests need.
enum Postgres {
  static let startup: [UInt8] = {
    let body = [0, 3, 0, 0] + Array("user\0alice\0\0".utf8)
    return [0, 0, 0, UInt8(body.count + 4)] + body
  }()
  static let sslRequest = Spoken.postgres.request
  static let gssRequest: [UInt8] = [0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x30]
  static let cancelRequest: [UInt8] = [0, 0, 0, 16, 0x04, 0xD2, 0x16, 0x2E, 0, 0, 0, 7, 1, 2, 3, 4]

  private static func message(_ type: Character, _ body: [UInt8]) -> [UInt8] {
    let length = body.count + 4
    return [type.asciiValue ?? 0, 0, 0, UInt8(length >> 8), UInt8(length & 255)] + body
  }

  /// Answers as a server in which every query has the row `one`.
  static func serve(_ wire: Wire) throws {
    let length = try wire.read(exactly: 4)
    _ = try wire.read(exactly: Int(length[3]) - 4)
    let ready = message("Z", [UInt8(ascii: "I")])
    try wire.write(message("R", [0, 0, 0, 0]) + ready)
    while true {
      let head = try wire.read(exactly: 5)
      _ = try wire.read(exactly: (Int(head[3]) << 8 | Int(head[4])) - 4)
      guard head[0] == UInt8(ascii: "Q") else { return }
      let column = Array("a\0".utf8) + [0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]
      try wire.write(
        message("T", [0, 1] + column) + message("D", [0, 1, 0, 0, 0, 3] + Array("one".utf8))
          + message("C", Array("SELECT 1\0".utf8)) + ready)
    }
  }
}

/// As much of the mail protocols as Python's clients need.
enum Mail {
  static func serve(_ wire: Wire, _ kind: Spoken) throws {
    try wire.write(kind.greeting)
    while true {
      let line = try wire.line()
      let words = line.split(separator: " ").map(String.init)
      guard let first = words.first else { return }
      switch kind {
      case .smtp: try wire.write(first == "QUIT" ? "221 bye\r\n" : "250 OK\r\n")
      case .imap:
        let command = words.count > 1 ? words[1] : ""
        let said = command == "CAPABILITY" ? "* CAPABILITY IMAP4rev1\r\n" : command == "LOGOUT" ? "* BYE\r\n" : ""
        try wire.write("\(said)\(first) OK done\r\n")
      default: try wire.write("+OK\r\n")
      }
    }
  }
}
