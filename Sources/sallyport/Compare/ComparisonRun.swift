import Bytes
import Conversion
import Crypto
import Glibc
import Language
import Negotiation
import TLS
import Transport

/// A program whose configurations are converted.
enum OldProgram: String {
  case stunnel, ghostunnel, haproxy = "HAProxy", nginx

  /// Names of its executable.
  private var executables: [String] {
    switch self {
    case .stunnel: ["stunnel4", "stunnel"]
    case .ghostunnel: ["ghostunnel"]
    case .haproxy: ["haproxy"]
    case .nginx: ["nginx"]
    }
  }

  /// nil: it isn't installed.
  var path: String? {
    let folders =
      (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":").map(String.init) + [
        "/usr/sbin", "/usr/local/sbin",
      ]
    for name in executables {
      for folder in folders where access("\(folder)/\(name)", X_OK) == 0 { return "\(folder)/\(name)" }
    }
    return nil
  }

  /// The words behind its name.
  func arguments(_ text: String, file: String, folder: String) -> [String] {
    switch self {
    case .stunnel: [file]
    case .ghostunnel: text.split(separator: "\n").map(String.init)
    case .haproxy: ["-db", "-f", file]
    case .nginx: ["-c", file, "-e", "\(folder)/old.log"]
    }
  }
}

/// Runs the old program and sallyport side by side on loopback, and asks both the same.
struct ComparisonRun {
  /// The old configuration with stand-ins, for the old program or for ours.
  typealias MakeTrial = (_ place: StandIns.Place, _ isOld: Bool) -> Trial
  /// What becomes of a trial's text.
  typealias Convert = (_ text: String) -> Converted

  let program: OldProgram
  let trial: MakeTrial
  let convert: Convert
  /// What became of each line of the old configuration.
  let notes: [ConversionNote]

  private static let doors = 32
  private static let targets = 64

  func report() throws -> (text: String, isSame: Bool) {
    signal(SIGPIPE, SIG_IGN)
    guard let path = program.path else { throw ComparisonFailure(text: "\(program.rawValue) isn't installed") }
    let folder = try Self.folder()
    defer { Self.remove(folder) }
    let ports = try Self.freePorts(2 * Self.doors + Self.targets)
    func place(_ isOld: Bool) -> StandIns.Place {
      StandIns.Place(
        folder: folder, listeners: Array(ports[(isOld ? 0 : Self.doors)...].prefix(Self.doors)),
        targets: Array(ports[(2 * Self.doors)...]))
    }
    let old = trial(place(true), true), new = trial(place(false), false)
    let material = try TrialMaterial(new.standIns)
    try material.write(serverNames: [])
    let converted = convert(new.text).filled(warns: false) { _ in material.pin }
    guard converted.hasServers else {
      throw ComparisonFailure(text: "nothing is left to compare: the conversion has no server")
    }
    let plan = ComparisonPlan(converted, new.standIns)
    try material.writeTargets()

    let file = "\(folder)/old.conf"
    try Self.write(old.text, to: file)
    try Self.write(
      converted.text + preamble(converted, folder).joined(separator: "\n") + "\n", to: "\(folder)/new.conf")
    let listening = plan.doors.map(\.index)
    let behind = new.standIns.targets.indices.map { new.standIns.place.targets[$0] }
    var sights: [[Trying: Sight]] = [[:], [:]]
    var targets = try start(material, new, plan, .right)
    guard targets.listens(on: behind) else { throw failure("the servers behind", "\(folder)/targets.out") }
    let theirs = try TrialProcess(
      path, program.arguments(old.text, file: file, folder: folder), output: "\(folder)/old.out")
    guard theirs.listens(on: listening.map { old.standIns.place.listeners[$0] }) else {
      throw failure(program.rawValue, "\(folder)/old.out", "\(folder)/old.log")
    }
    let ours = try TrialProcess(Self.own, ["run", "-c", "\(folder)/new.conf"], output: "\(folder)/new.out")
    guard ours.listens(on: listening.map { new.standIns.place.listeners[$0] }) else {
      throw failure("sallyport", "\(folder)/new.out", "\(folder)/new.log")
    }
    for guise in TargetGuise.allCases {
      let tryings = plan.tryings.filter { $0.guise == guise }
      guard !tryings.isEmpty else { continue }
      if guise != .right {
        targets.end()
        targets = try start(material, new, plan, guise)
        guard targets.listens(on: behind) else { throw failure("the servers behind", "\(folder)/targets.out") }
      }
      for trying in tryings {
        for (side, standIns) in [old.standIns, new.standIns].enumerated() {
          sights[side][trying] = try sight(trying, plan, standIns, material)
        }
      }
    }
    for process in [theirs, ours, targets] { process.end() }
    let comparison = Comparison(
      plan, old: plan.tryings.compactMap { sights[0][$0] }, ours: plan.tryings.compactMap { sights[1][$0] }, converted,
      new, telling: notes)
    return (comparison.report(program.rawValue, new), comparison.isSame)
  }

  // MARK: Processes

  private static let own = "/proc/self/exe"

  private func preamble(_ converted: Converted, _ folder: String) -> [String] {
    (geteuid() == 0 ? ["user root;"] : []) + (converted.text.contains("\npid ") ? [] : ["pid \(folder)/new.pid;"])
      + ["error_log \(folder)/new.log;"]
  }

  private func start(
    _ material: TrialMaterial, _ trial: Trial, _ plan: ComparisonPlan, _ guise: TargetGuise
  ) throws -> TrialProcess {
    let folder = trial.standIns.place.folder
    let text = trial.standIns.targetConfiguration(
      telling: plan.fields,
      preamble: (geteuid() == 0 ? ["user root;"] : []) + [
        "pid \(folder)/targets.pid;", "error_log \(folder)/targets.log;",
      ],
      certificate: { material.path(target: $0, guise) })
    try Self.write(text, to: "\(folder)/targets.conf")
    return try TrialProcess(Self.own, ["run", "-c", "\(folder)/targets.conf"], output: "\(folder)/targets.out")
  }

  private func failure(_ name: String, _ files: String...) -> ComparisonFailure {
    let said = files.compactMap { file -> String? in
      guard case .success(let bytes) = SourceFiles.disk.read(file, 1 << 20) else { return nil }
      return String(decoding: bytes.suffix(4000), as: UTF8.self)
    }
    return ComparisonFailure(text: "\(name) can't be started:\n\(said.joined())")
  }

  // MARK: Connections

  private func sight(
    _ trying: Trying, _ plan: ComparisonPlan, _ standIns: StandIns, _ material: TrialMaterial
  ) throws -> Sight {
    let door = plan.doors[trying.door]
    let port = UInt16(clamping: standIns.place.listeners[door.index])
    guard let address = SocketAddress(literal: "127.0.0.1", port: port) else { return .refused("") }
    var handshake: TrialExchange.Handshake?
    if door.isTLS || door.isPassedOn {
      handshake = TrialExchange.Handshake(
        identity: try material.client(trying.shown), serverName: trying.serverName, version: trying.version.rawValue)
    }
    var request = ""
    if door.isHTTP {
      request = "GET \(trying.path) HTTP/1.1\r\nHost: \(trying.host)\r\n"
      for name in door.fields.sorted() { request += "\(name): \(Comparison.forged)\r\n" }
      request += "Connection: close\r\n\r\n"
    }
    let isHTTP = door.isHTTP
    let answer = TrialExchange(
      handshake, negotiation: door.starttls.flatMap { NegotiatedProtocol(rawValue: $0) },
      preamble: door.takesProxyProtocol ? Array("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n".utf8) : []
    ).answer(from: address, to: Array(request.utf8)) {
      !isHTTP && Sight.hasCome($0)
    }
    return Sight(answer.bytes, reason: answer.reason, port: Int(port))
  }

  // MARK: The folder

  private static func write(_ text: String, to path: String) throws {
    try NewFile.replace(path, SecretBytes(Array(text.utf8)), mode: 0o600)
  }

  private static func folder() throws -> String {
    let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    var name = Array("\(parent)/sallyport-compare.XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else {
      throw ComparisonFailure(text: "no folder can be made in \(parent): \(String(cString: strerror(errno)))")
    }
    return name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
  }

  /// Removes the folder with what is in it, one level deep and below.
  private static func remove(_ folder: String) {
    guard let entries = opendir(folder) else { return }
    while let entry = readdir(entries) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name != ".", name != ".." else { continue }
      let path = "\(folder)/\(name)"
      if unlink(path) != 0, errno == EISDIR || errno == EPERM { remove(path) }
    }
    closedir(entries)
    rmdir(folder)
  }

  /// Ports that were free a moment ago.
  private static func freePorts(_ count: Int) throws -> [Int] {
    var descriptors: [Int32] = []
    defer { for descriptor in descriptors { close(descriptor) } }
    return try (0..<count).map { _ in
      let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      guard descriptor >= 0 else { throw ComparisonFailure(text: "no socket: \(String(cString: strerror(errno)))") }
      descriptors.append(descriptor)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let isBound = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
        }
      }
      guard isBound else { throw ComparisonFailure(text: "no free port: \(String(cString: strerror(errno)))") }
      return Int(UInt16(bigEndian: address.sin_port))
    }
  }
}
