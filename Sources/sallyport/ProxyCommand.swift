import ArgumentParser
import CLinux
import Configuration
import Daemon
import Glibc
import Observability
import Transport
import Language

struct ProxyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "proxy",
    abstract: "Run the proxy from options or variables, without a configuration file.",
    discussion: """
      Clients with a certificate of --client-ca reach the upstream of --to. Prints the configuration that the options \
      stand for to stderr, and runs it.

      With --tcp it passes connections of any protocol and no requests, as ghostunnel and stunnel do: --to HOST:PORT gets \
      the bytes in clear. With --to tls://HOST:PORT, or with any --upstream-… option or --pin, it gets them over TLS, \
      verified as below. Connections may be silent for 12 hours.

      Without --cert, clients of this machine come in clear, and the upstream gets TLS, with --client-cert if it asks who \
      sallyport is. --ca, --client-key and --starttls are then words for --upstream-ca, --upstream-key and \
      --upstream-starttls. --listen must be on the loopback or a unix socket, unless --listen-anywhere is given.

      Each option has a variable: SALLYPORT_LISTEN for --listen, SALLYPORT_CLIENT_CA for --client-ca. An option wins over \
      its variable. A variable of a repeatable option has one value on each line. Any other variable whose name begins \
      with SALLYPORT_ is an error.

      An upstream with TLS is verified by --upstream-ca and --pin if both are given, by one of them if only that is given, \
      and by the system's CAs if neither is. With --pin alone the key decides, whatever name and CA the certificate has.

      HUP loads the files again. `sallyport health --listen ADDRESS` asks the process.
      """
  ).example(
    "sallyport proxy --listen 0.0.0.0:8443 --cert server.crt --key server.key --client-ca ca.crt --to http://127.0.0.1:8080"
  )

  @Option(help: "Where to listen: :PORT, HOST:PORT or unix:/PATH; repeatable.")
  var listen: [String] = []
  @Flag(help: "Without --cert: let clients of other machines in, who come in clear.")
  var listenAnywhere = false
  @Option(
    help: "The server's certificate: PEM, DER or PKCS#12. It may contain the key. Without it, clients come in clear.")
  var cert: [String] = []
  @Option(help: "The key of --cert, if it is in a separate file.")
  var key: [String] = []
  @Option(help: "A file with pass phrases for keys and PKCS#12, one on each line.")
  var passwordFile: [String] = []
  @Option(
    name: .customLong("client-ca"),
    help: "The CAs whose clients may connect. Required with --cert unless --verify is off.")
  var clientCA: [String] = []
  @Option(
    help: "A pin of a client's key, or a file with its certificate: beside --client-ca, or in its place; repeatable.")
  var clientPin: [String] = []
  @Option(help: "Whether clients need a certificate: on, optional or off (default: on).")
  var verify: [String] = []
  @Option(help: "Certificates that the client CAs revoked; repeatable.")
  var crl: [String] = []
  @Option(help: "Admit only these clients, such as 'dns=*.example.com ou=Payments'; repeatable.")
  var allow: [String] = []
  @Option(help: "Refuse these clients; repeatable.")
  var deny: [String] = []
  @Flag(help: "Pass connections of any protocol over TCP, and not requests of HTTP.")
  var tcp = false
  @Option(
    help:
      "With --tcp, how clients ask for TLS: postgres, smtp, imap, pop3 or ldap. Without it, TLS begins at once. Without --cert, how the upstream is asked."
  )
  var starttls: [String] = []
  @Option(
    help:
      "The upstream: https://HOST:PORT or http://HOST:PORT; with --tcp, HOST:PORT or tls://HOST:PORT. Repeatable for several servers."
  )
  var to: [String] = []
  @Option(help: "A pin of the upstream's key, as `sallyport pin HOST:PORT` prints it; repeatable.")
  var pin: [String] = []
  @Option(name: .customLong("upstream-ca"), help: "The CAs that verify the upstream, instead of the system's.")
  var upstreamCA: [String] = []
  @Option(help: "The name in the upstream's certificate, if it is not the host of --to.")
  var upstreamName: [String] = []
  @Option(help: "The client certificate to present to the upstream.")
  var upstreamCert: [String] = []
  @Option(help: "The key of --upstream-cert, if it is in a separate file.")
  var upstreamKey: [String] = []
  @Option(
    name: .customLong("upstream-starttls"), help: "With --tcp, how the upstream is asked for TLS, as in --starttls.")
  var upstreamStartTLS: [String] = []
  @Option(
    name: .customLong("upstream-id"),
    help: "A SPIFFE ID that the upstream may have, in place of a name and CAs; repeatable.")
  var upstreamID: [String] = []
  @Option(help: "Without --cert: the certificate to present to the upstream, or spiffe: for that of the agent.")
  var clientCert: [String] = []
  @Option(help: "Without --cert: the key of --client-cert, if it is in a separate file.")
  var clientKey: [String] = []
  @Option(name: .customLong("ca"), help: "Without --cert: the CAs that verify the upstream, instead of the system's.")
  var authority: [String] = []
  @Option(help: "The socket of the SPIFFE agent, unix:/PATH, if SPIFFE_ENDPOINT_SOCKET doesn't name it.")
  var spiffeEndpoint: [String] = []
  @Option(help: "The proxy through which the upstream is reached by CONNECT: http://HOST:PORT.")
  var via: [String] = []
  @Option(help: "The file with NAME:PASSWORD for --via.")
  var viaUserFile: [String] = []
  @Option(help: "Answer every plain HTTP request with 200 here, for probes; :PORT is on the loopback. Repeatable.")
  var healthListen: [String] = []
  @Option(help: "debug, info, notice, warn, error, crit, alert or emerg (default: notice).")
  var logLevel: [String] = []
  @Option(help: "Whom a process that root starts becomes (default: nobody).")
  var user: [String] = []
  @Flag(name: .customLong("demo-ca"), help: "For a trial: make a CA and certificates, as `sallyport demo` does.")
  var demoCA = false
  @Option(help: "With --demo-ca: the folder for its files.")
  var demoDir: String?
  @Flag(name: .customLong("print"), help: "Only print the configuration, to stdout.")
  var isPrinted = false

  func run() throws {
    do throws(ProxyOptionFaults) {
      var options = try ProxyOptions(given: given, environment: Self.environment)
      let trial = try demo(&options)
      let made = try ProxyText(options, hasIPv6: Self.hasIPv6)
      let source = ConfigurationSource.text(made.text, name: ProxyText.name)
      let wording = OptionWording(made)
      if isPrinted {
        try judge(source, wording)
        print(made.text, terminator: "")
        return
      }
      let shown = made.text + (trial?.guide(options) ?? "")
      trial?.renew()
      Daemon.run(
        source, wording: { wording.reworded($0) }, announced: { LogFile.standardError.write(string: shown) })
    } catch {
      for fault in error.all { LogFile.standardError.write(string: "\(fault)\n") }
      throw ExitCode.failure
    }
  }

  /// Whoever keeps the printed text must find no fault of its language in it. A start judges it, too.
  private func judge(_ source: ConfigurationSource, _ wording: OptionWording) throws(ProxyOptionFaults) {
    let (settings, _, diagnostics) = Configuration.read(source)
    guard settings == nil else { return }
    throw ProxyOptionFaults(
      diagnostics.filter { $0.severity == .error }.map {
        let spoken = wording.reworded($0)
        return ProxyOptionFault(spoken.message, hint: spoken.hint)
      })
  }

  // MARK: Options and variables

  private var given: [ProxyOption: [String]] {
    [
      .listen: listen, .cert: cert, .key: key, .passwordFile: passwordFile, .clientCA: clientCA,
      .clientPin: clientPin, .verify: verify,
      .crl: crl, .allow: allow, .deny: deny, .tcp: tcp ? ["on"] : [], .starttls: starttls, .to: to, .pin: pin,
      .upstreamCA: upstreamCA, .upstreamName: upstreamName, .upstreamCert: upstreamCert, .upstreamKey: upstreamKey,
      .upstreamStartTLS: upstreamStartTLS, .upstreamID: upstreamID, .clientCert: clientCert, .clientKey: clientKey,
      .ca: authority, .spiffeEndpoint: spiffeEndpoint, .via: via,
      .viaUserFile: viaUserFile, .listenAnywhere: listenAnywhere ? ["on"] : [],
      .healthListen: healthListen, .logLevel: logLevel, .user: user,
      .demoCA: demoCA ? ["on"] : [],
    ]
  }

  static var environment: [(name: String, value: String)] {
    guard let entries = linux_environment() else { return [] }
    var found: [(name: String, value: String)] = []
    var index = 0
    while let entry = entries[index] {
      let text = String(cString: entry)
      if let equals = text.firstIndex(of: "=") {
        found.append((String(text[..<equals]), String(text[text.index(after: equals)...])))
      }
      index += 1
    }
    return found
  }

  /// Whether a socket can listen on all IPv6 addresses of this machine.
  static var hasIPv6: Bool {
    do throws(SocketError) {
      try Sockets.tryBinding(to: .ipv6(high: 0, low: 0, port: 0), ipv6only: true)
      return true
    } catch {
      return false
    }
  }

  // MARK: Trial

  private func demo(_ options: inout ProxyOptions) throws(ProxyOptionFaults) -> ProxyTrial? {
    guard let value = options.one(.demoCA), value.text != "off" else {
      if demoDir != nil { throw ProxyOptionFaults([ProxyOptionFault("--demo-dir belongs to --demo-ca")]) }
      return nil
    }
    guard value.text == "on" else {
      throw ProxyOptionFaults([ProxyOptionFault("\(value.origin) \"\(value.text)\": it must be on or off")])
    }
    for option in [ProxyOption.cert, .key, .clientCA, .clientPin, .crl] {
      guard let other = options.one(option) else { continue }
      throw ProxyOptionFaults([ProxyOptionFault("\(value.origin) makes its own: leave out \(other.origin)")])
    }
    do throws(DemoFailure) {
      let trial = try ProxyTrial(in: demoDir)
      options.set(.cert, trial.file("server.crt"), origin: value.origin)
      options.set(.key, trial.file("server.key"), origin: value.origin)
      if options.one(.verify)?.text != "off" {
        options.set(.clientCA, trial.file("ca.crt"), origin: value.origin)
        options.set(.crl, trial.file("ca.crl"), origin: value.origin)
      }
      // The files are root's alone, and the process loads renewed ones.
      if geteuid() == 0, options.one(.user) == nil { options.set(.user, "root", origin: value.origin) }
      return trial
    } catch {
      throw ProxyOptionFaults([ProxyOptionFault("\(value.origin): \(error.text)")])
    }
  }
}
