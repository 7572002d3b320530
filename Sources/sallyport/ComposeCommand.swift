import ArgumentParser
import CLinux
import Conversion
import Daemon
import Enrolment
import Glibc
import Language
import Observability

struct ComposeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compose", abstract: "Put mutual TLS between the services of a compose file.",
    subcommands: [
      ComposeOverrideCommand.self, ComposeSidecarCommand.self, ComposeIdentitiesCommand.self, ComposeStopCommand.self,
      ComposeStartCommand.self,
    ], defaultSubcommand: ComposeOverrideCommand.self
  ).example("sallyport compose override compose.yaml web api:8080 db:5432/tcp > compose.sallyport.yaml")
}

extension ComposeService: ExpressibleByArgument {
  public init?(argument: String) { self.init(argument) }
}

/// What the override's command and the sidecars are told alike.
struct ComposeMeshOptions: ParsableArguments {
  @Argument(help: "The services: NAME, NAME:PORT for HTTP, NAME:PORT/tcp for anything else.")
  var services: [ComposeService]
  @Option(help: "The first two numbers of the networks' addresses, which nothing else on the machine may use.")
  var subnet = "10.213"

  var mesh: ComposeMesh { ComposeMesh(services, subnet: subnet) }

  func validate() throws {
    let parts = subnet.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ UInt8($0) != nil }) else {
      throw ValidationError("--subnet \(subnet): expected two numbers, such as 10.213")
    }
  }
}

struct ComposeOverrideCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "override", abstract: "Print an override with a sidecar for each service named (the default).",
    discussion: """
      Each service named gets a network that it shares with its sidecar alone. Its sidecar joins with a token of the override, \
      and gets a certificate of an hour with the service's name. \
      Calls between these services go from sidecar to sidecar over mutual TLS, under the names and ports that they have. \
      NAME alone is a service that nobody calls. Nothing is started, and no socket of Docker is used.
      """
  ).example("sallyport compose override compose.yaml web api:8080 db:5432/tcp > compose.sallyport.yaml")

  @Argument(help: "The compose file; - is standard input.")
  var file: String
  @OptionGroup var shared: ComposeMeshOptions
  @Option(help: "The image of the sidecars.")
  var image = "sallyport"

  func validate() throws {
    let allowed = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:@_-")
    guard !image.isEmpty, image.allSatisfy(allowed.contains) else {
      throw ValidationError("--image \(image): expected a reference such as registry.example.com/sallyport:0.1.0")
    }
  }

  func run() throws {
    let path = file == "-" ? "/dev/stdin" : file
    guard let text = Self.read(path) else {
      LogFile.standardError.write(string: "error: \(file) can't be read: \(String(cString: strerror(errno)))\n")
      throw ExitCode.failure
    }
    let tokens = shared.services.compactMap { _ in JoinToken.make() }
    guard tokens.count == shared.services.count else {
      LogFile.tell("error: the system gives no random bytes", level: 3)
      throw ExitCode.failure
    }
    do throws(ComposeFault) {
      let plan = try ComposePlan(text, shared.mesh, image: image)
      print(plan.override(tokens: tokens), terminator: "")
    } catch {
      LogFile.standardError.write(string: "error: \(file) \(error)\n")
      throw ExitCode.failure
    }
  }

  /// Up to a little more than the reader takes.
  private static func read(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 64 * 1024)
    while bytes.count <= 1 << 20 {
      let count = Glibc.read(descriptor, &part, part.count)
      guard count >= 0 else { return nil }
      if count == 0 { break }
      bytes += part[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// For the service sallyport-identities of the override.
struct ComposeIdentitiesCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "identities", abstract: "Give each sidecar with a token a certificate of an hour.",
    discussion: """
      Stays, and answers the sidecars' datagrams. SALLYPORT_JOIN has the tokens: NAME=TOKEN NAME=TOKEN. \
      The first key that comes with a token is the only one that it admits.
      """
  ).example("sallyport compose identities 10.213.0.254:7613")

  @Argument(help: "The IPv4 address and port to listen on.")
  var listen: String
  @Option(help: "The folder of the authority's key.")
  var authority = ComposeMesh.authority

  func run() throws {
    // The first process of a container ends by no signal that it doesn't handle.
    for number in [SIGTERM, SIGINT, SIGQUIT] { signal(number) { _ in _exit(0) } }
    try CATool.run { () throws(AuthorityError) in
      var identities = try ServiceIdentities(in: authority, tokens: JoinToken.ofEnvironment())
      let socket = try JoinSocket.listening(on: listen)
      var told = ""
      while true {
        do throws(AuthorityError) {
          for line in try identities.serve(socket, at: Int64(time(nil))) { print(line) }
          told = ""
        } catch {
          // What failed may succeed the next time.
          tell("error: \(error)", unless: &told)
          sleep(1)
        }
        fflush(nil)
      }
    }
  }
}

/// Tells what is new, and not the same each second.
private func tell(_ text: String, unless told: inout String) {
  if text != told, !text.isEmpty { LogFile.tell(text, level: 3) }
  told = text
}

/// For the sidecars of the override.
struct ComposeSidecarCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sidecar", abstract: "Join as a service's sidecar, and serve.",
    discussion: """
      SALLYPORT_JOIN has the service's token: NAME=TOKEN. Asks once a second whether there is a new certificate or a new \
      revocation list, and runs `sallyport run` with the configuration of the service, which loads them. TERM, QUIT, \
      INT, HUP and USR1 go to that process.
      """
  ).example("sallyport compose sidecar 10.213.0.254:7613 web api:8080 db:5432/tcp")

  @Argument(help: "The address and port of `compose identities`.")
  var keeper: String
  @OptionGroup var shared: ComposeMeshOptions
  @Option(help: "The folder of the key, the certificate and the configuration.")
  var folder = ComposeMesh.folder

  func run() throws {
    var served = ServedChild()
    try CATool.run { () throws(AuthorityError) in
      let tokens = try JoinToken.ofEnvironment()
      guard let (name, token) = tokens.first, tokens.count == 1,
        let index = shared.services.firstIndex(where: { $0.name == name })
      else {
        throw AuthorityError(
          "\(JoinToken.variable) is not for one of the services \(shared.services.map(\.name).joined(separator: ", "))",
          hint: "expected NAME=TOKEN, as in the output of `sallyport compose override`")
      }
      var member = try ServiceMember(name, token, in: folder)
      // Without capabilities, root can't become the user that serves.
      let user = geteuid() == 0 ? "user root;\n" : ""
      let configuration = try member.keep(user + shared.mesh.configuration(of: index, folder: folder))
      let socket = try JoinSocket.to(keeper)
      var told = ""
      while true {
        do throws(AuthorityError) {
          try member.ask(socket)
          tell(member.note, unless: &told)
        } catch {
          tell("error: \(error)", unless: &told)
        }
        if !served.isStarted, member.isReady(at: Int64(time(nil))),
          !served.start({ Daemon.run(ConfigurationSource(configuration)) })
        {
          throw AuthorityError("the process can't be copied: \(String(cString: strerror(errno)))")
        }
        served.passSignals(milliseconds: 700)
      }
    }
  }
}

/// A copy of this process that serves. This one passes signals on, and ends when the copy does.
private struct ServedChild {
  private var process: pid_t = 0
  /// What waits until this process asks for it.
  private var signals = sigset_t()

  init() {
    sigemptyset(&signals)
    for number in [SIGTERM, SIGQUIT, SIGINT, SIGHUP, SIGUSR1, SIGCHLD] { sigaddset(&signals, number) }
    sigprocmask(SIG_BLOCK, &signals, nil)
  }

  var isStarted: Bool { process > 0 }

  mutating func start(_ serve: () -> Never) -> Bool {
    process = linux_fork()
    guard process == 0 else { return process > 0 }
    linux_end_with_parent()
    sigprocmask(SIG_UNBLOCK, &signals, nil)
    serve()
  }

  /// Waits for a signal, at most for this time.
  mutating func passSignals(milliseconds: Int) {
    var time = timespec(tv_sec: 0, tv_nsec: milliseconds * 1_000_000)
    let number = sigtimedwait(&signals, nil, &time)
    if number > 0, number != SIGCHLD {
      if !isStarted { exit(0) }
      kill(process, number)
    }
    var status: Int32 = 0
    guard isStarted, waitpid(process, &status, WNOHANG) == process else { return }
    // The status of a process that a signal has ended, as shells tell it.
    exit(status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F)
  }
}

/// What `stop` and `start` are told.
struct ComposeIdentity: ParsableArguments {
  @Argument(help: "The name of the service.")
  var name: String
  @Option(help: "The folder of the authority's key.")
  var authority = ComposeMesh.authority

  func set(isStopped: Bool) throws {
    try CATool.run { () throws(AuthorityError) in
      try ServiceIdentities.set(name, isStopped: isStopped, in: authority)
    }
  }
}

struct ComposeStopCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stop", abstract: "Take a service's identity away: others end its connections within 5 seconds."
  ).example("sallyport compose stop api")
  @OptionGroup var identity: ComposeIdentity
  func run() throws { try identity.set(isStopped: true) }
}

struct ComposeStartCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "start", abstract: "Give a stopped service a new identity."
  ).example("sallyport compose start api")
  @OptionGroup var identity: ComposeIdentity
  func run() throws { try identity.set(isStopped: false) }
}
