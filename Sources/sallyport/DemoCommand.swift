import ArgumentParser
import Daemon
import Glibc
import Observability
import Transport

struct DemoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Show the whole thing on this machine: a CA, a client certificate and a pinned TLS upstream.",
    discussion: """
      Makes a CA, certificates and a configuration in a folder of its own, serves it on localhost and prints the curl \
      commands to try. The files are kept between starts, and made anew a week before they expire. Ctrl-C ends it.
      """)

  @Option(help: "The folder for its files (default: $XDG_DATA_HOME/sallyport/demo, ~/.local/share/sallyport/demo).")
  var dir: String?

  @Option(help: "The port on 127.0.0.1.")
  var port: UInt16 = 8443

  func validate() throws {
    guard port > 0 else { throw ValidationError("--port: expected 1 to 65535") }
  }

  func run() throws {
    do throws(DemoFailure) {
      try freePort()
      let files = try DemoFiles(in: try folder())
      let configuration = try files.write(DemoConfiguration(files: files, port: port).text, to: "sallyport.conf")
      let guide = DemoGuide(files: files, port: port, configuration: configuration).text
      Daemon.run(configuration: configuration) { LogFile.standardError.write(string: guide) }
    } catch {
      LogFile.standardError.write(string: "error: \(error.text)\n")
      throw ExitCode.failure
    }
  }

  /// Asked before anything is made, for a better answer than bind's.
  private func freePort() throws(DemoFailure) {
    do throws(SocketError) {
      close(
        try Sockets.listen(
          on: .ipv4(address: INADDR_LOOPBACK, port: port), backlog: 1, reuseport: false, ipv6only: true))
    } catch {
      throw DemoFailure(
        text: error.code == EADDRINUSE
          ? "port \(port) of 127.0.0.1 is taken: choose another with --port"
          : "can't listen on port \(port) of 127.0.0.1: \(error); choose another with --port")
    }
  }

  private func folder() throws(DemoFailure) -> String {
    if let dir { return dir }
    func variable(_ name: String) -> String? {
      getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
    }
    if let data = variable("XDG_DATA_HOME") { return "\(data)/sallyport/demo" }
    if let home = variable("HOME") { return "\(home)/.local/share/sallyport/demo" }
    throw DemoFailure(text: "neither XDG_DATA_HOME nor HOME says where to keep files: name a folder with --dir")
  }
}

struct DemoFailure: Error {
  let text: String
}
