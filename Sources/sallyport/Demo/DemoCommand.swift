import Language
import ArgumentParser
import Configuration
import Daemon
import Glibc
import Observability
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

  @Option(help: .hidden)
  var renewEvery: UInt32 = 3600

  func validate() throws {
    guard port > 0 else { throw ValidationError("--port \(port): expected 1 to 65535") }
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
      let hasIPv6 = try freePort()
      let folder = try DemoFolder(try place.path())
      try folder.refuseOthers()
      let sockets = try folder.socketFolder()
      let files = DemoFiles(in: folder, names: names)
      _ = try files.refresh()
      let application = try upstream == nil ? DemoApplication(at: "\(sockets)/app.sock") : nil
      let configuration = DemoConfiguration(
        sockets: sockets, names: files.names, pin: try files.pin(), port: port, hasIPv6: hasIPv6,
        verification: verify, version: version, upstream: upstream, upstreamPin: upstreamPin)
      let path = try files.folder.write(try configuration.text(), to: "sallyport.conf")
      let guide = DemoGuide(
        files: files, port: port, configuration: path, isOwnUpstream: upstream != nil,
        hasTLSUpstream: upstream?.isTLS ?? true, verification: verify)
      try files.folder.write(guide.everything, to: DemoGuide.fileName)
      application?.start()
      DemoRenewal(files, every: renewEvery).start()
      Daemon.run(.file(path), announced: { LogFile.standardError.write(string: guide.text) })
    } catch {
      error.tell()
      throw ExitCode.failure
    }
  }

  /// Checks the port before files are made, for a better message than bind's. Returns whether ::1 is available too.
  private func freePort() throws(DemoFailure) -> Bool {
    try free(.ipv4(address: INADDR_LOOPBACK, port: port), "127.0.0.1")
    guard let address = SocketAddress(literal: "::1", port: port) else { return false }
    do throws(SocketError) {
      try Sockets.tryBinding(to: address, ipv6only: true)
      return true
    } catch {
      if error.code != EADDRINUSE { return false }
      throw DemoFailure(text: "another process uses port \(port) of ::1: choose another port with --port")
    }
  }

  private func free(_ address: SocketAddress, _ name: String) throws(DemoFailure) {
    do throws(SocketError) {
      try Sockets.tryBinding(to: address, ipv6only: true)
    } catch {
      throw DemoFailure(
        text: error.code == EADDRINUSE
          ? "another process uses port \(port) of \(name): choose another port with --port"
          : "can't listen on port \(port) of \(name): \(error); choose another port with --port")
    }
  }
}
