import ArgumentParser
import Conversion
import Enrolment
import Glibc
import Observability

struct ComposeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compose", abstract: "Put mutual TLS between the services of a compose file.",
    subcommands: [
      ComposeOverrideCommand.self, ComposeIdentitiesCommand.self, ComposeStopCommand.self, ComposeStartCommand.self,
    ], defaultSubcommand: ComposeOverrideCommand.self
  ).example("sallyport compose override compose.yaml web api:8080 db:5432/tcp > compose.sallyport.yaml")
}

extension ComposeService: ExpressibleByArgument {
  public init?(argument: String) { self.init(argument) }
}

struct ComposeOverrideCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "override", abstract: "Print an override with a sidecar for each service named (the default).",
    discussion: """
      Each service named gets a network that it shares with its sidecar alone, and a certificate of an hour with its name. \
      Calls between these services go from sidecar to sidecar over mutual TLS, under the names and ports that they have. \
      NAME alone is a service that nobody calls. Nothing is started, and no socket of Docker is used.
      """
  ).example("sallyport compose override compose.yaml web api:8080 db:5432/tcp > compose.sallyport.yaml")

  @Argument(help: "The compose file; - is standard input.")
  var file: String
  @Argument(help: "The services: NAME, NAME:PORT for HTTP, NAME:PORT/tcp for anything else.")
  var services: [ComposeService]
  @Option(help: "The image of the sidecars.")
  var image = "sallyport"
  @Option(help: "The first two numbers of the networks' addresses, which nothing else on the machine may use.")
  var subnet = "10.213"

  func validate() throws {
    let parts = subnet.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ UInt8($0) != nil }) else {
      throw ValidationError("--subnet \(subnet): expected two numbers, such as 10.213")
    }
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
    do throws(ComposeFault) {
      print(try ComposePlan(text, services: services, subnet: subnet, image: image).override, terminator: "")
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
    commandName: "identities", abstract: "Keep a certificate of an hour for each service, each in a folder of its own.",
    discussion: """
      Stays, and looks once a second for what is due: a successor half an hour before the end of a certificate, and the \
      list of those of services that are stopped. A sidecar loads changed files within seconds.
      """
  ).example("sallyport compose identities /authority /services api web")

  @Argument(help: "The folder of the authority's key.")
  var authority: String
  @Argument(help: "The folder with a folder for each service.")
  var services: String
  @Argument(help: "The names of the services.")
  var names: [String]
  @Option(help: "If root runs it: the number of the user who runs the sidecars.")
  var owner: UInt32 = 65532
  @Flag(help: "Do what is due, and end.")
  var once = false

  func validate() throws {
    for name in names where ComposeService(name)?.port != nil || ComposeService(name) == nil {
      throw ValidationError("\"\(name)\" is no name of a service")
    }
  }

  func run() throws {
    // The first process of a container ends by no signal that it doesn't handle.
    for number in [SIGTERM, SIGINT, SIGQUIT] { signal(number) { _ in _exit(0) } }
    try CATool.run { () throws(AuthorityError) in
      let identities = try ServiceIdentities(in: authority, services: services, names: names, owner: owner)
      while true {
        do throws(AuthorityError) {
          for line in try identities.keepUp(at: Int64(time(nil))) { print(line) }
        } catch {
          if once { throw error }
          // What failed may succeed the next time.
          LogFile.tell("error: \(error)", level: 3)
        }
        fflush(nil)
        if once { return }
        sleep(1)
      }
    }
  }
}

struct ComposeStopCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stop", abstract: "Take a service's identity away: others end its connections within 5 seconds."
  ).example("sallyport compose stop api")

  @Argument(help: "The name of the service.")
  var name: String
  @Option(help: "The folder of the authority's key.")
  var authority = "/authority"

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      try ServiceIdentities.set(name, isStopped: true, in: authority)
    }
  }
}

struct ComposeStartCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "start", abstract: "Give a stopped service a new identity."
  ).example("sallyport compose start api")

  @Argument(help: "The name of the service.")
  var name: String
  @Option(help: "The folder of the authority's key.")
  var authority = "/authority"

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      try ServiceIdentities.set(name, isStopped: false, in: authority)
    }
  }
}
