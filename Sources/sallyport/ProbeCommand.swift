import ArgumentParser
import Daemon
import Glibc
import Observability
import TLS
import Transport

struct ProbeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "probe",
    abstract: "Tell what a handshake with a server shows: do we trust it, does it take our certificate?",
    discussion: """
      The server is judged by the policy of a configuration (--config, --server), or by the system's CAs, --cafile and \
      --pin. One GET is sent, for some servers refuse a certificate only then.

      The exit status is 0 when both answers are yes, 1 when we do not trust the server, 2 when it does not take \
      us in, 3 when there was no handshake to look at.
      """)

  @Argument(help: "https://HOST[:PORT][/PATH], or HOST:PORT. Not needed with --config: what the server passes on to.")
  var url: String?

  @Option(help: "Our certificate: PEM, DER or PKCS#12.")
  var cert: String?

  @Option(help: "Its key, where it is in a file of its own.")
  var key: String?

  @Option(name: .customLong("password-file"), help: "Pass phrases for it, one a line.")
  var passwordFile: String?

  @Option(help: "CAs that the server must come from, in place of the system's.")
  var cafile: String?

  @Option(help: "A pin that the server's key must match, as in proxy_ssl_pin; repeatable.")
  var pin: [String] = []

  @Option(name: .shortAndLong, help: "A configuration, whose policy towards an upstream is taken.")
  var config: String?

  @Option(help: "The server block of it, by one of its names.")
  var server: String?

  @Option(help: "The name that the certificate must be for, and that goes into SNI, in place of the URL's.")
  var name: String?

  @Flag(help: "JSON, for programs.")
  var json = false

  private struct Failure: Error {
    let text: String
    init(_ text: String) { self.text = text }
  }

  func run() throws {
    let outcome = Result { () throws(Failure) in
      let (policy, target) = try plan()
      return (probe: try probe(policy, target), target: target)
    }
    switch outcome {
    case .failure(let failure):
      LogFile.standardError.write(string: "error: \(failure.text)\n")
      throw Exit.noHandshake.code
    case .success(let (probe, target)):
      if json {
        print(ProbeJSON(probe.report, of: target.url, at: probe.address).text)
      } else {
        let isColoured = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil
        print(
          ProbeText(
            probe.report, of: target.url, at: probe.address, isColoured: isColoured, now: Int64(time(nil))
          ).text)
      }
      if probe.report.trust == .unknown { throw Exit.noHandshake.code }
      if !probe.report.trustsServer { throw Exit.untrusted.code }
      if !probe.report.isAccepted { throw Exit.refused.code }
    }
  }

  private enum Exit: Int32 {
    case untrusted = 1
    case refused = 2
    case noHandshake = 3
    var code: ExitCode { ExitCode(rawValue) }
  }

  private func plan() throws(Failure) -> (ProbePolicy, ProbeTarget) {
    if let config {
      guard let server else { throw Failure("--config needs --server NAME") }
      let asked = url.flatMap { ProbeTarget($0) }
      let policy = try judged { () throws(ProbePolicy.Refused) in
        try ProbePolicy(configuration: config, server: server, authority: asked?.authority)
      }
      guard let target = asked ?? policy.target.flatMap({ ProbeTarget($0) }) else {
        throw Failure("give a URL: what server \"\(server)\" passes on to is not known before a request")
      }
      return (policy, target)
    }
    guard let url else { throw Failure("give a URL, or --config FILE --server NAME") }
    guard let target = ProbeTarget(url) else { throw Failure("\"\(url)\" is no https://HOST[:PORT][/PATH]") }
    var arguments = ProbePolicy.Arguments()
    arguments.certificate = cert
    arguments.key = key
    arguments.passwordFile = passwordFile
    arguments.cafile = cafile
    arguments.pins = pin
    return (try judged { () throws(ProbePolicy.Refused) in try ProbePolicy(arguments) }, target)
  }

  private func judged(_ make: () throws(ProbePolicy.Refused) -> ProbePolicy) throws(Failure) -> ProbePolicy {
    do throws(ProbePolicy.Refused) {
      return try make()
    } catch {
      throw Failure(error.diagnostics.map(\.description).joined(separator: "\n"))
    }
  }

  private func probe(
    _ policy: ProbePolicy, _ target: ProbeTarget
  ) throws(Failure) -> (report: ProbeReport, address: SocketAddress) {
    let addresses = Resolver.addresses(of: target.host, port: target.port)
    guard !addresses.isEmpty else { throw Failure("\(target.host): host not found") }
    let probe = Probe(
      policy: policy.context, name: name ?? target.host, host: target.authority, path: target.path,
      presented: policy.presented, issuers: policy.anchors)
    var reasons: [String] = []
    for address in addresses {
      do throws(SocketError) {
        return (try probe.run(address), address)
      } catch {
        reasons.append("\(address): \(error)")
      }
    }
    throw Failure(reasons.joined(separator: "\n"))
  }
}

/// Whom to ask for what.
struct ProbeTarget {
  let host: String
  let port: UInt16
  let path: String

  /// As Host has it.
  var authority: String {
    let shown = host.contains(":") ? "[\(host)]" : host
    return port == 443 ? shown : "\(shown):\(port)"
  }

  var url: String { "https://\(authority)\(path)" }

  /// nil for what is neither an https URL nor HOST:PORT.
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
    if authority.hasPrefix("[") {
      guard let close = authority.firstIndex(of: "]") else { return nil }
      host = String(authority[authority.index(after: authority.startIndex)..<close])
      let after = authority[authority.index(after: close)...]
      guard after.isEmpty || after.hasPrefix(":"), let port = after.isEmpty ? 443 : UInt16(after.dropFirst()) else {
        return nil
      }
      self.port = port
    } else {
      let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count <= 2, let port = parts.count == 2 ? UInt16(parts[1]) : 443 else { return nil }
      host = parts.first.map(String.init) ?? ""
      self.port = port
    }
    if host.isEmpty || port == 0 || !host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) { return nil }
  }
}

extension String {
  fileprivate func range(of text: String) -> Range<Index>? { firstRange(of: text) }
}
