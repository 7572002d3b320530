import Bytes
import Crypto
import Enrolment
import HTTP
import Observability
import Transport

/// `auth_basic`: a name and a password at the door. Files and hashes are slow, so they are looked at beside the loop.
extension Exchange {
  func authenticate(_ access: BasicAccessSettings) {
    guard case .basic(let user, let password) = shownCredentials else {
      log(.info, "no user/password was provided for basic authentication")
      return challenge()
    }
    let box = LoopBox(self)
    let (serial, loop, limit, address) = (serial, worker.loop, location.guessLimit, Self.party(facts.peer))
    let state = worker.shared.enrolment
    awaitTurn(.passwords, from: address) {
      let verdict = PasswordVerdict(on: user, password, by: access.users, limit, from: address, state)
      loop.post { box.value.authenticated(verdict, user, serial) }
    }
  }

  private func authenticated(
    _ verdict: PasswordVerdict, _ user: [UInt8], _ serial: UInt64
  ) {
    guard serial == self.serial else { return }
    waitingPassword = nil
    switch verdict {
    case .admitted: act()
    case .refused:
      log(.error, "user \"\(Self.printable(user))\": wrong password, or no such user")
      challenge()
    case .tooMany(let wait):
      log(.error, "user \"\(Self.printable(user))\": too many wrong passwords of this user or address")
      refuse(429, retryAfter: wait)
    case .broken(let reason):
      tellOfRepeated(.crit, reason)
      fail(Failure(500))
    }
  }

  /// Does what needs the hash of a password, unless too much waits, or the client leaves before its turn.
  func awaitTurn(_ work: BlockingWork, from address: String, _ body: @escaping @Sendable () -> Void) {
    switch worker.shared.pool.run(work, for: address, body) {
    case .taken(let ticket, let waits):
      waitingPassword = ticket
      // It came with its client's end, of which nobody will tell again.
      if waits, connection?.stream.hasPeerEnd == true { clientDidLeave() }
    case .partyIsFull:
      log(.error, "too many \(work) of this address are waiting to be checked")
      refuse(429, retryAfter: 1)
    case .full:
      log(.error, "too many \(work) are waiting to be checked")
      refuse(503, retryAfter: 1)
    }
  }

  func withdrawPassword() {
    if let waitingPassword { worker.shared.pool.withdraw(waitingPassword) }
    waitingPassword = nil
  }

  /// nil: none, or none that can be read.
  var shownCredentials: ShownCredentials? {
    guard let field = head.first(.authorization) else { return nil }
    return ShownCredentials(head.bytes.readable[field.value])
  }

  /// Whose passwords count and wait together: an IPv4 address, or a network of IPv6 as one household has it.
  static func party(_ peer: SocketAddress) -> String {
    guard case .ipv6(let high, _, _) = peer, high != 0 else { return peer.host }
    return "\(String(high, radix: 16))/64"
  }

  /// 401.
  func challenge() {
    var value = ByteBuffer()
    value.append("Basic realm=\"")
    for byte in location.realm?.bytes(self) ?? [] {
      if byte == 0x22 || byte == 0x5C { value.append(0x5C) }
      value.append(byte)
    }
    value.append("\"")
    setAnswerField("WWW-Authenticate", value.readable)
    fail(Failure(401))
  }

  /// `retryAfter`: seconds.
  func refuse(_ code: Int, retryAfter wait: Int64) {
    Array("\(wait)".utf8).withUnsafeBytes { setAnswerField("Retry-After", $0) }
    fail(Failure(code))
  }

  func setAnswerField(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    answerFields = FieldBlock()
    if !answerFields.add(name.withUTF8Buffer { Array($0) }, Array(value)) {
      log(.error, "\(name) left out: its value has control characters")
    }
  }

  static func printable(_ user: [UInt8]) -> String {
    var line = ByteBuffer()
    user.withUnsafeBytes { LogEscape.default($0, &line) }
    return line.readable.text
  }
}
