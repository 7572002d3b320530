import Bytes
import ArgumentParser
import Daemon
import Glibc
import Observability
import TLS
import Transport

struct ProbeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "probe",
    abstract: "Inspect a handshake with a server: do we trust it, does it accept our certificate?",
    discussion: """
      The command verifies the server by the policy of a configuration (--config, --server), or by the system's CAs, \
      --cafile and --pin. It sends one GET request, because some servers refuse a certificate only then.

      Exit status: 0 if both answers are yes; 1 if we do not trust the server; 2 if the server does not accept our \
      certificate; 3 if there was no complete handshake; 4 if the policy verifies nothing. For several servers (an \
      upstream group), it is the first status other than 0.
      """)

  @Argument(
    help:
      "https://HOST[:PORT][/PATH], or HOST:PORT. With --config: an upstream group or one of its servers; the default is the upstream of the server block."
  )
  var url: String?

  @Option(help: "The client certificate to present: PEM, DER or PKCS#12.")
  var cert: String?

  @Option(help: "The key of the client certificate, if it is in a separate file.")
  var key: String?

  @Option(name: .customLong("password-file"), help: "A file with pass phrases for the key, one on each line.")
  var passwordFile: String?

  @Option(help: "The CAs to verify the server with, instead of the system's.")
  var cafile: String?

  @Option(help: "A pin that the server's key must match, as in proxy_ssl_pin; repeatable.")
  var pin: [String] = []

  @Option(name: .shortAndLong, help: "A configuration. The command applies its policy for an upstream.")
  var config: String?

  @Option(help: "The server block of the configuration, by one of its names.")
  var server: String?

  @Option(help: "The name to verify and to send as SNI, instead of the URL's host.")
  var name: String?

  @Flag(help: "Print JSON: one object on each line for each server.")
  var json = false

  /// The text to print in place of a report. Each fault begins with `error:`.
  private struct Failure: Error {
    let text: String
    init(_ fault: String) { text = "error: \(fault)" }
    init(_ diagnostics: [Diagnostic]) { text = diagnostics.map(\.description).joined(separator: "\n") }
  }

  private typealias Report = (probe: (report: ProbeReport, address: SocketAddress), target: ProbeTarget)

  func run() throws {
    // A server that closes at once must not end the command: OpenSSL's writes would raise the signal.
    signal(SIGPIPE, SIG_IGN)
    let outcomes: [Result<Report, Failure>]
    do throws(Failure) { outcomes = try self.outcomes() } catch { outcomes = [.failure(error)] }
    var exits: [Exit] = []
    for (number, outcome) in outcomes.enumerated() {
      switch outcome {
      case .failure(let failure):
        LogFile.standardError.write(string: failure.text + "\n")
        exits.append(.noHandshake)
      case .success(let (probe, target)):
        if number > 0 && !json { print("") }
        print(json ? ProbeJSON(probe.report, of: target.url, at: probe.address).text : text(probe, target))
        if let exit = Exit(probe.report) { exits.append(exit) }
      }
    }
    if let exit = exits.first { throw exit.code }
  }

  private func text(_ probe: (report: ProbeReport, address: SocketAddress), _ target: ProbeTarget) -> String {
    let isColoured = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil
    return ProbeText(
      probe.report, of: target.url, at: probe.address, isColoured: isColoured, now: Int64(time(nil))
    ).text
  }

  private enum Exit: Int32 {
    case untrusted = 1
    case refused = 2
    case noHandshake = 3
    case noPolicy = 4
    var code: ExitCode { ExitCode(rawValue) }

    /// Returns nil when both answers are yes.
    init?(_ report: ProbeReport) {
      switch report.trust {
      case .unknown: self = .noHandshake
      case .refused: self = .untrusted
      case .unverified: self = .noPolicy
      case .trusted, .reportOnly:
        if report.isAccepted { return nil }
        self = .refused
      }
    }
  }

  /// Returns one outcome for each server to probe.
  private func outcomes() throws(Failure) -> [Result<Report, Failure>] {
    try refuseUnheeded()
    if let config { return try outcomes(configuration: config) }
    guard let url else { throw Failure("give a URL, or --config FILE --server NAME") }
    let target = try target(url)
    var arguments = ProbePolicy.Arguments()
    arguments.certificate = cert
    arguments.key = key
    arguments.passwordFile = passwordFile
    arguments.cafile = cafile
    arguments.pins = pin
    let policy = try judged { () throws(ProbePolicy.Refused) in try ProbePolicy(arguments) }
    return [outcome(policy, target, Resolver.addresses(of: target.host, port: target.port))]
  }

  /// Refuses options that would change nothing: whoever gives a pin or a CA believes that it was judged by.
  private func refuseUnheeded() throws(Failure) {
    if config == nil {
      if server != nil { throw Failure("--server selects a server block of a configuration: give --config FILE too") }
      if key != nil, cert == nil { throw Failure("--key is the key of a certificate: give --cert FILE too") }
      return
    }
    let given = [
      ("--cert", cert != nil), ("--key", key != nil), ("--password-file", passwordFile != nil),
      ("--cafile", cafile != nil), ("--pin", !pin.isEmpty),
    ]
    if let option = given.first(where: \.1)?.0 {
      throw Failure("\(option) can't be combined with --config, whose policy judges: leave one of them out")
    }
  }

  private func outcomes(configuration: String) throws(Failure) -> [Result<Report, Failure>] {
    guard let server else { throw Failure("--config needs --server NAME") }
    let spelt = url.flatMap { ProbeTarget($0) }
    let authority = spelt?.authority ?? url
    let policy = try judged { () throws(ProbePolicy.Refused) in
      try ProbePolicy(configuration: configuration, server: server, authority: authority)
    }
    let proxied = policy.target.flatMap { ProbeTarget($0) }
    // All servers of the proxied group, or the one that the argument selects.
    let servers =
      authority == nil || authority == proxied?.authority
      ? policy.servers : policy.servers.filter { authority == ProbeTarget($0.spelling)?.authority ?? $0.spelling }
    if !servers.isEmpty {
      let host = proxied?.authority ?? policy.target ?? server
      let target = ProbeTarget(host: policy.name ?? proxied?.host ?? host, authority: host, path: spelt?.path ?? "/")
      return servers.flatMap { server -> [Result<Report, Failure>] in
        let addresses = server.addresses
        guard !addresses.isEmpty else { return [.failure(Failure("\(server.spelling): host not found"))] }
        // Each address of a name is a server of the group.
        return addresses.map { outcome(policy, target, [$0]) }
      }
    }
    guard let url else {
      throw Failure("give a URL: server \"\(server)\" selects its upstream only when a request arrives")
    }
    let target = try target(url)
    return [outcome(policy, target, Resolver.addresses(of: target.host, port: target.port))]
  }

  private func target(_ url: String) throws(Failure) -> ProbeTarget {
    guard let target = ProbeTarget(url) else {
      throw Failure("\"\(url)\" is not of the form https://HOST[:PORT][/PATH]")
    }
    return target
  }

  private func judged(_ make: () throws(ProbePolicy.Refused) -> ProbePolicy) throws(Failure) -> ProbePolicy {
    do throws(ProbePolicy.Refused) {
      return try make()
    } catch {
      throw Failure(error.diagnostics)
    }
  }

  /// Probes the first of these addresses that accepts a connection.
  private func outcome(
    _ policy: ProbePolicy, _ target: ProbeTarget, _ addresses: [SocketAddress]
  ) -> Result<Report, Failure> {
    guard !addresses.isEmpty else { return .failure(Failure("\(target.host): host not found")) }
    let probe = Probe(
      policy: policy.context, name: name ?? target.host, tellsName: name != nil || policy.tellsName,
      host: target.authority, path: target.path, presented: policy.presented, issuers: policy.anchors)
    var reasons: [String] = []
    for address in addresses {
      do throws(SocketError) {
        return .success(((try probe.run(address), address), target))
      } catch {
        reasons.append("\(address): \(error)")
      }
    }
    return .failure(Failure(reasons.joined(separator: "\n")))
  }
}

/// The server and path to probe.
struct ProbeTarget {
  let host: String
  let port: UInt16
  let path: String
  /// The value of the Host field.
  let authority: String

  /// Describes a server of an upstream group. `host`: the name that its certificate must be valid for.
  init(host: String, authority: String, path: String) {
    self.host = host
    self.port = 443
    self.authority = authority
    self.path = path
  }

  var url: String { "https://\(authority)\(path)" }

  /// Returns nil for anything but an https URL or HOST:PORT.
  init?(_ text: String) {
    var rest = Substring(text)
    if let scheme = text.range(of: "://") {
      guard text[..<scheme.lowerBound].lowercased() == "https" else { return nil }
      rest = text[scheme.upperBound...]
    }
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    let authority = rest[..<end]
    let tail = rest[end...]
    path = tail.isEmpty ? "/" : tail.hasPrefix("?") ? "/\(tail)" : String(tail)
    guard path.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != 0x23 }), !authority.contains("@") else { return nil }
    guard let server = try? HostPort(authority) else { return nil }
    host = server.host
    port = server.port ?? 443
    let shown = host.contains(":") ? "[\(host)]" : host
    self.authority = port == 443 ? shown : "\(shown):\(port)"
    if !host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) { return nil }
  }
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? { firstRange(of: text) }
}
