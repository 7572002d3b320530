import Language
import ArgumentParser
import Configuration
import Daemon
import Glibc
import Observability
import Review
import Transport

struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Run a local mTLS endpoint: a CA, valid and invalid client certificates, and a pinned TLS upstream.",
    discussion: """
      Creates a CA, certificates and a configuration in a separate folder, serves on localhost and prints commands to \
      try. The demo keeps the files between starts and renews certificates under the same CA. Ctrl-C ends the demo.
      """,
    subcommands: [DemoServeCommand.self, DemoTrustCommand.self], defaultSubcommand: DemoServeCommand.self
  ).example("sallyport demo --name proxy.example.com --upstream http://127.0.0.1:3000")
}

struct DemoPlace: ParsableArguments {
  @Option(
    help: "The folder for the demo's files (default: $XDG_DATA_HOME/sallyport/demo, or ~/.local/share/sallyport/demo).")
  var dir: String?

  func path() throws(DemoFailure) -> String { if let dir { dir } else { try DemoFolder.standard() } }
}

struct DemoServeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Serve the endpoint (the default).",
    usage: """
      sallyport demo [<options>]
      sallyport demo trust system|nss [--remove]
      """,
    discussion: DemoCommand.configuration.discussion)

  @OptionGroup var place: DemoPlace

  @Option(help: "The port on 127.0.0.1 and ::1.")
  var port: UInt16 = 8443

  @Option(
    help:
      "Listen on this address, too, for containers and other machines: 0.0.0.0 and :: are all addresses; repeatable.")
  var listen: [DemoListen] = []

  @Option(name: .customLong("name"), help: "Another name or address in the server's certificate; repeatable.")
  var names: [DemoName] = []

  @Option(help: "Proxy to your own application: http://HOST:PORT, or https:// with --upstream-pin.")
  var upstream: DemoUpstreamURL?

  @Option(help: "The pin of an https upstream, as `sallyport pin HOST:PORT` prints it.")
  var upstreamPin: DemoPin?

  @Option(help: "Whether clients need a certificate: on or optional.")
  var verify: DemoVerification = .on

  @Option(name: .customLong("tls"), help: "Accept only this TLS version: 1.2 or 1.3.")
  var version: DemoVersion?

  @Option(
    help: "Serve a server for each fault that a client must refuse, on this port by name and on the ports after it.")
  var badServers: UInt16?

  @Flag(
    help: "Say what clients made of the bad servers, and serve nothing. Exit status 1: one was accepted, or not tried.")
  var report = false

  @Option(help: "With --report: a bad server that clients may accept, such as wrong-pin; repeatable.")
  var mayAccept: [BadServer] = []

  @Flag(help: "With --report: print JSON.")
  var json = false

  @Option(help: .hidden)
  var renewEvery: UInt32 = 3600

  func validate() throws {
    guard port > 0 else { throw ValidationError("--port \(port): expected 1 to 65535") }
    if let badServers, badServers == 0 || badServers > BadServer.highestFirstPort {
      throw ValidationError("--bad-servers \(badServers): expected 1 to \(BadServer.highestFirstPort)")
    }
    if let badServers, badServers <= port, port <= BadServer.allCases.map({ $0.port(after: badServers) }).max() ?? 0 {
      throw ValidationError("--bad-servers \(badServers): its ports include --port \(port)")
    }
    guard report || !json && mayAccept.isEmpty else {
      throw ValidationError("--json and --may-accept belong to --report")
    }
    guard renewEvery > 0 else { throw ValidationError("--renew-every \(renewEvery): expected 1 or more") }
    switch (upstream?.isTLS ?? false, upstreamPin) {
    case (true, nil):
      throw ValidationError("--upstream https://… needs --upstream-pin: `sallyport pin HOST:PORT` prints it")
    case (false, .some): throw ValidationError("--upstream-pin is for an https upstream")
    default: break
    }
  }

  func run() throws {
    do throws(DemoFailure) {
      if report { return try tellOfVisits() }
      let addresses = try DemoListeners(listen, port: port).addresses
      let bad: DemoBadServers? =
        if let badServers { try DemoBadServers(on: addresses, first: badServers) } else { nil }
      let folder = try DemoFolder(try place.path())
      try folder.refuseOthers()
      let sockets = try folder.socketFolder()
      let files = DemoFiles(in: folder, names: names + listen.flatMap(\.names))
      _ = try files.refresh()
      try bad?.refresh(files)
      let application = try upstream == nil ? DemoApplication(at: "\(sockets)/app.sock") : nil
      let configuration = DemoConfiguration(
        sockets: sockets, names: files.names, pin: try files.pin(of: .echo), addresses: addresses,
        verification: verify, version: version, upstream: upstream, upstreamPin: upstreamPin)
      let path = try files.folder.write(try configuration.text(), to: "sallyport.conf")
      let guide = DemoGuide(
        files: files, port: port, configuration: path, isOwnUpstream: upstream != nil,
        hasTLSUpstream: upstream?.isTLS ?? true, verification: verify, names: names, listen: listen,
        badServers: badServers, pin: try files.pin(of: .server))
      try files.folder.write(guide.everything, to: DemoGuide.fileName)
      application?.start()
      bad?.start(try DemoVisits(in: folder))
      DemoRenewal(files, every: renewEvery, bad).start()
      Daemon.run(.file(path), announced: { LogFile.standardError.write(string: guide.text) })
    } catch {
      error.tell()
      throw ExitCode.failure
    }
  }

  private func tellOfVisits() throws(DemoFailure) {
    let folder = try DemoFolder(try place.path())
    guard let text = DemoVisits.text(in: folder) else {
      throw DemoFailure(text: "\(folder.path): no demo has run with --bad-servers here")
    }
    let trial = ClientTrial(text, mayAccept: Set(mayAccept))
    print(json ? trial.json : trial.text, terminator: "")
    if !trial.faults.isEmpty { Glibc.exit(1) }
  }
}
