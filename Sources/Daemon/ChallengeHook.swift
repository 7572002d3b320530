import ACME
import CLinux
import Configuration
import Features
import Forward
import Glibc
import Sandbox
import Synchronization
import Traffic

/// A second process that runs the programs of `challenge dns-01`, because the sandbox lets this one start none.
///
/// It is a copy of this process from before the sandbox and before any key was read, as the user that serves. The programs
/// and the names are those of the start, and it makes a record's name itself: so who has taken over the sandboxed process
/// can have no other program run, and no record set for another name. It ends with this process, after it has removed the
/// records that are left.
final class ChallengeHook: Sendable {
  /// A program, and the name whose record it may set and remove.
  struct Permission: Sendable, Hashable {
    let program: String
    /// Without a wildcard.
    let name: String

    func isFor(_ certificate: ACMECertificateSettings) -> Bool {
      certificate.issuer.challenge == .dns01(program: program)
        && certificate.names.contains { $0.authorized.description == name }
    }
  }

  /// What a program is to do: its first argument, as lego's `exec` has it.
  enum Verb: UInt8 { case present, cleanup }

  private let process: HelperProcess
  private var channel: Int32 { process.channel }
  private let permitted: [Permission]
  private let state = Mutex(State())

  private struct State {
    /// What was set and not removed yet, by the order it was set for.
    var records: [(owner: UInt64, permission: Permission, value: String)] = []
  }

  /// One program runs at a time: two that change the same zone of a DNS server could undo each other's change.
  private let turn = Mutex(())

  private init(_ process: HelperProcess, _ permitted: [Permission]) {
    self.process = process
    self.permitted = permitted
  }

  /// The permissions that a configuration needs.
  static func permissions(_ settings: Settings) -> [Permission] {
    let certificates = settings.http[ACMESettings.self].certificates
    guard !certificates.isEmpty else { return [] }
    var all: Set<Permission> = []
    for certificate in certificates {
      guard case .dns01(let program) = certificate.issuer.challenge else { continue }
      for name in certificate.names { all.insert(Permission(program: program, name: name.authorized.description)) }
    }
    return all.sorted { ($0.program, $0.name) < ($1.program, $1.name) }
  }

  /// Call this while the process has one thread. nil: no program is needed, or the process can't be copied.
  static func fork(_ settings: Settings) -> ChallengeHook? {
    let permitted = permissions(settings)
    guard !permitted.isEmpty, PrivilegeLimits.threads ?? 1 == 1 else { return nil }
    return HelperProcess.fork { ChallengeHookProcess.serve($0, permitted, settings.main) }
      .map { ChallengeHook($0, permitted) }
  }

  /// Whether the program may be run for the name. A reload can't add to that.
  func permits(_ permission: Permission) -> Bool { permitted.contains(permission) }

  /// Has the program set the record of a name, and waits until it has ended: at most `ChallengeHookProcess.longest` seconds.
  func present(_ permission: Permission, _ value: String, owner: UInt64) throws(ACMEError) {
    state.withLock { $0.records.append((owner, permission, value)) }
    try run(.present, permission, value)
  }

  /// Has the programs remove what they have set for an order. Returns what failed.
  func cleanUp(owner: UInt64) -> [ACMEError] {
    let records = state.withLock { state in state.records.filter { $0.owner == owner } }
    var failures: [ACMEError] = []
    for record in records {
      do throws(ACMEError) {
        try run(.cleanup, record.permission, record.value)
      } catch {
        failures.append(error)
      }
    }
    state.withLock { state in state.records.removeAll { $0.owner == owner } }
    return failures
  }

  var hasEnded: Bool { process.hasEnded }

  /// Lets the other process end, and waits for that: a moment, or some seconds if it has records to remove.
  func close() {
    process.close(waiting: state.withLock { $0.records.isEmpty } ? 1 : 10)
  }

  private func run(_ verb: Verb, _ permission: Permission, _ value: String) throws(ACMEError) {
    guard let index = permitted.firstIndex(of: permission) else {
      throw ACMEError(
        "\(permission.program) can't be run for \(permission.name): it was not in the configuration of the start",
        hint: "restart, or replace the process (USR2)", cure: .change)
    }
    let outcome = try turn.withLock { (_) throws(ACMEError) in try ask(verb, index, value) }
    guard outcome.kind != .exited || outcome.code != 0 else { return }
    let record = ChallengeHookProcess.record(of: permission.name)
    throw ACMEError("\(permission.program) \(verb) \(record) \(value): \(outcome)")
  }

  private func ask(_ verb: Verb, _ index: Int, _ value: String) throws(ACMEError) -> HookOutcome {
    let number = UInt32.random(in: 0 ... .max)
    var patience = timeval(tv_sec: Int(ChallengeHookProcess.longest) + 10, tv_usec: 0)
    setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    let request = HookRequest(number: number, verb: verb, permission: UInt32(clamping: index), value: value).bytes
    guard linux_send(channel, request, request.count) == request.count else { throw Self.gone }
    var bytes = [UInt8](repeating: 0, count: HookOutcome.room)
    while true {
      let count = recv(channel, &bytes, bytes.count, 0)
      if count < 0 && errno == EINTR { continue }
      guard count > 0, let (answered, outcome) = HookOutcome.read(bytes[..<count]) else { throw Self.gone }
      // The number tells the answer from a late one to an earlier request.
      if answered == number { return outcome }
    }
  }

  private static let gone = ACMEError(
    "the process that runs the programs of dns-01 has ended or hangs", hint: "restart", cure: .change)
}

/// What the process that serves asks of the other one.
struct HookRequest: Equatable {
  let number: UInt32
  let verb: ChallengeHook.Verb
  /// An index among the permissions of the start.
  let permission: UInt32
  /// The text of the record: the SHA-256 of a key authorization as base64url.
  let value: String

  private static let valueLength = 43
  static let length = 9 + valueLength

  var bytes: [UInt8] {
    withUnsafeBytes(of: number.bigEndian) { Array($0) } + [verb.rawValue]
      + withUnsafeBytes(of: permission.bigEndian) { Array($0) } + Array(value.utf8)
  }

  init(number: UInt32, verb: ChallengeHook.Verb, permission: UInt32, value: String) {
    self.number = number
    self.verb = verb
    self.permission = permission
    self.value = value
  }

  /// Returns nil for anything else than a request: whoever sends it may have taken over the process.
  init?(_ bytes: ArraySlice<UInt8>) {
    let bytes = Array(bytes)
    guard bytes.count == Self.length, let verb = ChallengeHook.Verb(rawValue: bytes[4]) else { return nil }
    let value = bytes[9...]
    let isDigest = value.allSatisfy { byte in
      (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }
    guard isDigest else { return nil }
    number = bytes[0..<4].reduce(0) { $0 << 8 | UInt32($1) }
    permission = bytes[5..<9].reduce(0) { $0 << 8 | UInt32($1) }
    self.verb = verb
    self.value = String(decoding: value, as: UTF8.self)
  }
}

/// How a program ended.
struct HookOutcome: Equatable, CustomStringConvertible {
  enum Kind: UInt8 { case exited, killed, late, notStarted, refused }

  let kind: Kind
  /// An exit status, a signal, seconds or an errno.
  let code: Int32
  /// The first line of what the program wrote.
  var said = ""

  private static let longestText = 256
  static let room = 9 + longestText

  func bytes(number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.bigEndian) { Array($0) } + [kind.rawValue]
      + withUnsafeBytes(of: code.bigEndian) { Array($0) } + Array(said.utf8.prefix(Self.longestText))
  }

  static func read(_ bytes: ArraySlice<UInt8>) -> (number: UInt32, outcome: HookOutcome)? {
    let bytes = Array(bytes)
    guard bytes.count >= 9, let kind = Kind(rawValue: bytes[4]) else { return nil }
    let code = bytes[5..<9].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    return (
      bytes[0..<4].reduce(0) { $0 << 8 | UInt32($1) },
      HookOutcome(kind: kind, code: Int32(bitPattern: code), said: String(decoding: bytes[9...], as: UTF8.self))
    )
  }

  /// The first line with a text, without control characters.
  static func firstLine(of output: [UInt8]) -> String {
    let lines = output.split { $0 == 10 || $0 == 13 }
    guard let line = lines.first(where: { $0.contains { $0 > 32 } }) else { return "" }
    return String(
      decoding: line.prefix(longestText).map { $0 < 32 || $0 >= 127 ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
  }

  var description: String {
    let ending =
      switch kind {
      case .exited: "exit status \(code)"
      case .killed: "ended by signal \(code)"
      case .late: "did not end within \(code) s"
      case .notStarted: "could not be started (\(code): \(String(cString: strerror(code))))"
      case .refused: "is not in the configuration of the start"
      }
    return said.isEmpty ? ending : "\(ending): \(said)"
  }
}
