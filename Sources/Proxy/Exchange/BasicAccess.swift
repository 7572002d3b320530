import Bytes
import Crypto
import Enrolment
import HTTP
import Observability
import Transport

/// `auth_basic`: a name and a password at the door. Files and hashes are slow, so they are looked at beside the loop.
extension Exchange {
  /// Of all loops: hashes are work for the processor.
  static let passwordWork = BlockingWork("passwords", lanes: 2, limit: 512)

  private enum PasswordVerdict: Sendable {
    case admitted
    case refused
    case broken(String)
  }

  func authenticate(_ access: BasicAccessSettings) {
    guard case .basic(let user, let password) = shownCredentials else {
      log(.info, "no user/password was provided for basic authentication")
      return challenge(access)
    }
    let box = LoopBox(self)
    let (serial, loop) = (serial, worker.loop)
    let isTaken = Self.passwordWork.run {
      let verdict = Self.verdict(on: user, password, by: access.users)
      loop.post { box.value.authenticated(verdict, user, access, serial) }
    }
    if !isTaken { crowded() }
  }

  private static func verdict(
    on user: [UInt8], _ password: SecretBytes, by file: MaterialReference
  ) -> PasswordVerdict {
    do throws(MaterialError) {
      return try AccountFile(loading: file).admits(user, password) ? .admitted : .refused
    } catch {
      return .broken(error.message)
    }
  }

  private func authenticated(
    _ verdict: PasswordVerdict, _ user: [UInt8], _ access: BasicAccessSettings, _ serial: UInt64
  ) {
    guard serial == self.serial else { return }
    switch verdict {
    case .admitted: act()
    case .refused:
      log(.error, "user \"\(Self.printable(user))\": wrong password, or no such user")
      challenge(access)
    case .broken(let reason):
      log(.crit, reason)
      fail(Failure(500))
    }
  }

  /// nil: none, or none that can be read.
  var shownCredentials: ShownCredentials? {
    guard let field = head.first(.authorization) else { return nil }
    return ShownCredentials(head.bytes.readable[field.value])
  }

  /// 401.
  func challenge(_ access: BasicAccessSettings) {
    var value = ByteBuffer()
    value.append("Basic realm=\"")
    for byte in LiveTemplate(access.realm).bytes(self) {
      if byte == 0x22 || byte == 0x5C { value.append(0x5C) }
      value.append(byte)
    }
    value.append("\"")
    setAnswerField("WWW-Authenticate", value.readable)
    fail(Failure(401))
  }

  func crowded() {
    log(.error, "too many passwords are being checked")
    fail(Failure(503))
  }

  func setAnswerField(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    var line = ByteBuffer()
    if !HeadWriter.field(name, value, to: &line) { log(.error, "\(name) left out: its value has control characters") }
    answerFields = Array(line.readable)
  }

  static func printable(_ user: [UInt8]) -> String {
    var line = ByteBuffer()
    user.withUnsafeBytes { LogEscape.default($0, &line) }
    return line.readable.text
  }
}
