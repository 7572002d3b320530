import ArgumentParser
import Crypto
import Glibc
import Negotiation
import Observability
import Review
import TLS
import Transport

struct ProbeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "probe",
    abstract: "Inspect a handshake with a server: do we trust it, does it accept our certificate?",
    discussion: """
      The command verifies the server by the policy of a configuration (--config), or by the system's CAs, --cafile \
      and --pin. It sends one GET request, because some servers refuse a certificate only then. With --config alone it \
      looks at every server that some location, or some server of stream, passes on to over TLS, each by its policy.

      With --starttls it asks for TLS in the words of the protocol, and inside TLS one question of it: a startup message \
      without a user, QUIT, LOGOUT, or "Who am I?". To tls://HOST:PORT it sends nothing, because it knows no protocol.

      Exit status: 0 if both answers are yes; 1 if we do not trust the server; 2 if the server does not accept our \
      certificate; 3 if there was no complete handshake; 4 if the policy verifies nothing; 5 if the server's answer does \
      not say whether it accepts our certificate: a status of 400 to 499, or none. For several servers (an upstream \
      group), it is the first status other than 0.
      """
  ).example("sallyport probe https://erp.example.com/ --cert client.crt --key client.key --cafile ca.crt")

  @Argument(
    help:
      "https://HOST[:PORT][/PATH], HOST:PORT or tls://HOST:PORT. With --config: an upstream group or one of its servers; the default is the upstream of the server block."
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

  @Option(
    name: .shortAndLong,
    help: "A configuration, whose policy judges: of the server block --server, or of all its TLS upstreams.")
  var config: String?

  @Option(help: "The server block of the configuration, by one of its names.")
  var server: String?

  @Option(help: "The name to verify and to send as SNI, instead of the URL's host.")
  var name: String?

  @Option(
    help:
      "How the server is asked for TLS first: postgres, smtp, imap, pop3 or ldap. Then the argument is HOST[:PORT].",
    transform: NegotiatedProtocol.option)
  var starttls: NegotiatedProtocol?

  @OptionGroup var proxy: ProxyOnTheWay

  @Flag(help: "Print JSON: one object on each line for each server.")
  var json = false

  func validate() throws {
    guard url == nil, config == nil else { return }
    throw ValidationError(starttls == nil ? "give a URL, or --config FILE" : "give HOST:PORT of the server")
  }

  /// The text to print in place of a report. Each fault begins with `error:`.
  private struct Failure: Error {
    let text: String
    init(_ fault: String) { text = "error: \(fault)" }
    init(_ diagnostics: [Diagnostic]) { text = diagnostics.map(\.description).joined(separator: "\n") }
  }

  /// What is known of one server.
  private struct Outcome {
    let report: ProbeReport
    let url: String
    /// nil: no address was reached.
    var address: SocketAddress?
    /// The fault in place of a report, where there was no connection.
    var fault: String?
    var places: [String] = []
    /// The server as a configuration spells it.
    var server = ""

    /// What the last line calls it: a group's servers share their URL.
    var shortName: String {
      let place = address?.description ?? server
      return place.isEmpty ? url : "\(url) at \(place)"
    }
  }

  func run() throws {
    // A server that closes at once must not end the command: OpenSSL's writes would raise the signal.
    signal(SIGPIPE, SIG_IGN)
    let isWhole = config != nil && server == nil
    let outcomes: [Outcome]
    do throws(Failure) { outcomes = isWhole ? try everyOutcome() : try self.outcomes() } catch {
      LogFile.standardError.write(string: error.text + "\n")
      throw Exit.noHandshake.code
    }
    for (number, outcome) in outcomes.enumerated() {
      if number > 0, !json, !isWhole { print("") }
      show(outcome, isWhole: isWhole)
    }
    if isWhole, !json { print(ProbeList.verdict(outcomes.map { ($0.shortName, Exit($0.report) == nil) })) }
    if let exit = outcomes.lazy.compactMap({ Exit($0.report) }).first { throw exit.code }
  }

  /// Every server that the configuration passes on to over TLS, each by its policy, for `sallyport doctor`. None if the
  /// configuration can't be read, which others tell.
  static func servers(of configuration: String) -> [(name: String, places: [String], report: ProbeReport)] {
    guard let plan = try? ProbePlan(configuration: configuration),
      let command = try? parse(["--config", configuration])
    else { return [] }
    return plan.entries.flatMap { command.outcomes($0, path: "/") }.map { ($0.shortName, $0.places, $0.report) }
  }

  private func show(_ outcome: Outcome, isWhole: Bool) {
    if let fault = outcome.fault {
      let places = outcome.places.map { "\n    for: \($0)" }.joined()
      let hint = outcome.report.advice.map { "\n    hint: \($0)" } ?? ""
      LogFile.standardError.write(string: "error: \(fault)\(places)\(hint)\n")
    }
    if json {
      print(ProbeJSON(outcome.report, of: outcome.url, at: outcome.address, places: outcome.places).text)
    } else if let address = outcome.address {
      if isWhole, Exit(outcome.report) == nil {
        print(ProbeList.line(outcome.report, of: outcome.url, at: address, places: outcome.places))
      } else {
        print(isWhole ? "\n\(text(outcome, at: address))\n" : text(outcome, at: address))
      }
    }
  }

  private func text(_ outcome: Outcome, at address: SocketAddress) -> String {
    let isColoured = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil
    return ProbeText(
      outcome.report, of: outcome.url, at: address, places: outcome.places, isColoured: isColoured,
      now: Int64(time(nil))
    ).text
  }

  private enum Exit: Int32 {
    case untrusted = 1
    case refused = 2
    case noHandshake = 3
    case noPolicy = 4
    case undecided = 5
    var code: ExitCode { ExitCode(rawValue) }

    /// Returns nil when both answers are yes.
    init?(_ report: ProbeReport) {
      switch report.trust {
      case .unknown: self = .noHandshake
      case .refused: self = .untrusted
      case .unverified: self = .noPolicy
      case .trusted, .reportOnly:
        switch report.acceptance {
        case .notAsked, .accepted: return nil
        case .refused: self = .refused
        case .undecided, .unknown: self = .undecided
        }
      }
    }
  }

  /// Returns one outcome for each server to probe.
  private func outcomes() throws(Failure) -> [Outcome] {
    try refuseUnheeded()
    if let config, let server { return try outcomes(configuration: config, server: server) }
    guard let url else { throw Failure("give a URL") }
    let target = try target(url)
    var arguments = ProbePolicy.Arguments()
    arguments.speech = target.speech
    arguments.certificate = cert
    arguments.key = key
    arguments.passwordFile = passwordFile
    arguments.cafile = cafile
    arguments.pins = pin
    do throws(MaterialError) { arguments.proxy = try proxy.proxy() } catch {
      throw Failure(error.message)
    }
    let policy = try judged { () throws(ProbePolicy.Refused) in try ProbePolicy(arguments) }
    return [outcome(policy, target)]
  }

  /// Returns an outcome for each server of each TLS upstream of the configuration, or for those that the argument names.
  private func everyOutcome() throws(Failure) -> [Outcome] {
    try refuseUnheeded()
    if name != nil { throw Failure("--name replaces the name of one server: give --server NAME too") }
    guard let config else { return [] }
    let plan: ProbePlan
    do throws(ProbePolicy.Refused) { plan = try ProbePlan(configuration: config) } catch {
      throw Failure(error.diagnostics)
    }
    let spelt = url.flatMap { ProbeTarget($0) }
    let authority = spelt?.authority ?? url
    func isMeant(_ text: String) -> Bool { authority == nil || authority == ProbeTarget(text)?.authority ?? text }
    let entries = plan.entries.filter { isMeant($0.authority) || isMeant($0.server.spelling) }
    for unprobed in plan.unprobed where authority == nil {
      print(json ? ProbeJSON(unprobed: unprobed).text : ProbeList.line(unprobed))
    }
    guard !entries.isEmpty else {
      throw Failure(
        authority.map { "no location of \(config) passes anything on to \"\($0)\" over TLS" }
          ?? (plan.unprobed.isEmpty
            ? "no location of \(config) passes anything on over TLS"
            : "only requests decide on the upstreams of \(config): give --server NAME and a URL"))
    }
    return entries.flatMap { outcomes($0, path: spelt?.path ?? "/") }
  }

  private func outcomes(_ entry: ProbePlan.Entry, path: String) -> [Outcome] {
    let target = ProbeTarget(
      host: entry.name,
      authority: entry.speech.isHTTP ? ProbeTarget(entry.authority)?.authority ?? entry.authority : entry.authority,
      path: path, speech: entry.speech)
    var found: [Outcome] = []
    switch entry.policy {
    case .failure(let refused):
      let failure = Failure(refused.diagnostics)
      found = [
        Outcome(
          report: ProbeReport(without: nil, failure.text), url: target.url, fault: "\(target.url): \(failure.text)")
      ]
    case .success(let policy):
      found = outcomes(policy, entry.server, target)
    }
    for index in found.indices {
      found[index].places = entry.places
      found[index].server = entry.server.spelling
    }
    return found
  }

  /// Refuses options that would change nothing: whoever gives a pin or a CA believes that it was judged by.
  private func refuseUnheeded() throws(Failure) {
    if name?.isEmpty == true { throw Failure("--name \"\": give the name that the server's certificate must have") }
    if server?.isEmpty == true { throw Failure("--server \"\": give one of the names of a server block") }
    if config == nil {
      if server != nil { throw Failure("--server selects a server block of a configuration: give --config FILE too") }
      if passwordFile != nil, cert == nil, pin.isEmpty {
        throw Failure("--password-file opens the key of a certificate: give --cert FILE too")
      }
      if key != nil, cert == nil { throw Failure("--key is the key of a certificate: give --cert FILE too") }
      return
    }
    let given = [
      ("--cert", cert != nil), ("--key", key != nil), ("--password-file", passwordFile != nil),
      ("--cafile", cafile != nil), ("--pin", !pin.isEmpty), ("--starttls", starttls != nil),
      ("--via", proxy.via != nil), ("--via-user-file", proxy.viaUserFile != nil),
    ]
    if let option = given.first(where: \.1)?.0 {
      throw Failure("\(option) can't be combined with --config, whose policy judges: leave one of them out")
    }
  }

  private func outcomes(configuration: String, server: String) throws(Failure) -> [Outcome] {
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
      let host = (policy.speech.isHTTP ? proxied?.authority : nil) ?? policy.target ?? server
      let target = ProbeTarget(
        host: policy.name ?? proxied?.host ?? host, authority: host, path: spelt?.path ?? "/", speech: policy.speech)
      return servers.flatMap { outcomes(policy, $0, target) }
    }
    guard let url else {
      throw Failure("give a URL: server \"\(server)\" selects its upstream only when a request arrives")
    }
    return [outcome(policy, try target(url))]
  }

  /// Each address of a name is a server of the group. A proxy on the way resolves names by itself.
  private func outcomes(_ policy: ProbePolicy, _ server: ProbePolicy.Server, _ target: ProbeTarget) -> [Outcome] {
    if let proxy = policy.origin.proxy {
      return [outcome(policy, target, proxy.addresses, server: server.authority)]
    }
    let addresses = server.addresses
    return addresses.isEmpty ? [unfound(server.spelling, target)] : addresses.map { outcome(policy, target, [$0]) }
  }

  private func outcome(_ policy: ProbePolicy, _ target: ProbeTarget) -> Outcome {
    let addresses = policy.origin.proxy?.addresses ?? Resolver.addresses(of: target.host, port: target.port)
    return outcome(policy, target, addresses, server: target.server)
  }

  private func target(_ url: String) throws(Failure) -> ProbeTarget {
    if let starttls {
      guard let target = ProbeTarget(url, negotiating: starttls) else {
        throw Failure("\"\(url)\" is not of the form HOST[:PORT], which --starttls \(starttls.rawValue) needs")
      }
      return target
    }
    guard let target = ProbeTarget(url) else {
      throw Failure("\"\(url)\" is not of the form https://HOST[:PORT][/PATH], HOST:PORT or tls://HOST:PORT")
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

  private func unfound(_ server: String, _ target: ProbeTarget) -> Outcome {
    let fault = "\(server): host not found"
    return Outcome(report: ProbeReport(without: .hostNotFound, fault), url: target.url, fault: fault)
  }

  /// Probes the first of these addresses that accepts a connection. `server`: `HOST:PORT`, for a proxy at the address.
  private func outcome(
    _ policy: ProbePolicy, _ target: ProbeTarget, _ addresses: [SocketAddress], server: String = ""
  ) -> Outcome {
    guard !addresses.isEmpty else { return unfound(target.host, target) }
    let probe = Probe(
      policy: policy.context, name: name ?? target.host, tellsName: name != nil || policy.tellsName,
      host: target.authority, path: target.path, presented: policy.presented, issuers: policy.anchors,
      speech: policy.speech, origin: policy.origin, server: server)
    var reasons: [String] = []
    var last: SocketError?
    for address in addresses {
      do throws(SocketError) {
        return Outcome(report: try probe.run(address), url: target.url, address: address)
      } catch {
        reasons.append("\(address): \(error)")
        last = error
      }
    }
    let fault = reasons.joined(separator: "; ")
    return Outcome(
      report: ProbeReport(without: last.map { .unconnected($0) }, fault), url: target.url, fault: fault)
  }
}

extension NegotiatedProtocol {
  /// Parses the value of `--starttls`.
  static func option(_ text: String) throws -> NegotiatedProtocol {
    if let kind = NegotiatedProtocol(rawValue: text) { return kind }
    throw ValidationError("expected \(allCases.map(\.rawValue).joined(separator: ", "))")
  }
}
