import ArgumentParser
import Bytes
import Conversion
import Crypto
import Glibc
import Negotiation
import Observability
import Review
import TLS
import Transport

struct PinCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pin",
    abstract: "Print the proxy_ssl_pin directive for a key.",
    discussion: """
      The source is a certificate (PEM, DER, PKCS#12), a public or private key, or a server. The command prints the \
      directive to stdout and a description of the key to stderr.
      """
  ).example("sallyport pin erp.example.com:443")

  @Argument(help: "A certificate or key file, or HOST:PORT of a TLS server.")
  var source: String

  @Option(name: .customLong("password-file"), help: "A file with pass phrases for a key or PKCS#12, one on each line.")
  var passwordFile: String?

  @Option(
    help: "How the server is asked for TLS first: postgres, smtp, imap, pop3 or ldap. Then the source is HOST[:PORT].",
    transform: NegotiatedProtocol.option)
  var starttls: NegotiatedProtocol?

  @OptionGroup var proxy: ProxyOnTheWay

  func run() throws {
    // A server that closes at once must not end the command: OpenSSL's writes would raise the signal.
    signal(SIGPIPE, SIG_IGN)
    do throws(PinFailure) {
      print("proxy_ssl_pin \(try pin());")
    } catch {
      comment("error: \(error.text)")
      throw ExitCode.failure
    }
  }

  /// For a conversion: the pin of the key that a server presents; nil: none could be had, and standard error says why.
  static func pin(of gap: TrustGap) -> String? {
    signal(SIGPIPE, SIG_IGN)
    var command = PinCommand()
    command.source = gap.host.contains(":") ? "[\(gap.host)]:\(gap.port)" : "\(gap.host):\(gap.port)"
    var proxy = ProxyOnTheWay()
    (proxy.via, proxy.viaUserFile) = (gap.via, nil)
    command.proxy = proxy
    command.starttls = gap.starttls.flatMap { NegotiatedProtocol(rawValue: $0) }
    do throws(PinFailure) {
      return try command.presented(by: gap.host, UInt16(clamping: gap.port))
    } catch {
      command.comment("\(command.source): \(error.text)")
      return nil
    }
  }

  private struct PinFailure: Error { let text: String }

  /// Returns the pin of the source. An existing file comes first. A source that is neither a file nor HOST:PORT is
  /// reported as a missing file.
  private func pin() throws(PinFailure) -> String {
    if let starttls {
      guard let target = ProbeTarget(source, negotiating: starttls) else {
        throw PinFailure(
          text: "\"\(source)\" is not of the form HOST[:PORT], which --starttls \(starttls.rawValue) needs")
      }
      return try presented(by: target.host, target.port)
    }
    if access(source, F_OK) != 0, let (host, port) = hostAndPort { return try presented(by: host, port) }
    return try ofFile()
  }

  // MARK: A file

  private func ofFile() throws(PinFailure) -> String {
    do throws(MaterialError) {
      let passwords = try passwords()
      let reference = MaterialReference(path: source)
      let pin = try Pin.publicKey(in: reference, passwords: passwords)
      if let leaf = try? Certificate.loadAll(reference, passwords: passwords).first {
        comment("# \(leaf.summary)")
      } else {
        comment("# the key in \(source)")
      }
      return pin.description
    } catch {
      throw PinFailure(text: error.message + (error.hint.map { "\n    hint: \($0)" } ?? ""))
    }
  }

  private func passwords() throws(MaterialError) -> [SecretBytes] {
    guard let passwordFile else { return [] }
    do throws(MaterialError) { return try PasswordFile.load(MaterialReference(path: passwordFile)) } catch {
      throw MaterialError(
        culprit: error.culprit, location: nil, message: "--password-file \(error.message)", hint: error.hint)
    }
  }

  // MARK: A server

  private func presented(by host: String, _ port: UInt16) throws(PinFailure) -> String {
    var origin = ConnectionOrigin()
    do throws(MaterialError) { origin.proxy = try proxy.proxy()?.resolved() } catch {
      throw PinFailure(text: error.message)
    }
    let addresses = origin.proxy?.addresses ?? Resolver.addresses(of: host, port: port)
    guard !addresses.isEmpty else { throw PinFailure(text: "\(host): host not found") }
    var reasons: [String] = []
    for address in addresses {
      do throws(CertificateFetchError) {
        let sent = try CertificateFetch.certificates(
          from: address, name: host, origin: origin, server: "\(host.contains(":") ? "[\(host)]" : host):\(port)",
          negotiation: starttls)
        show(sent, from: address)
        return Pin.spelling(publicKeyDigest: sent.leaf.spkiSHA256)
      } catch {
        reasons.append(error.description)
      }
    }
    throw PinFailure(text: reasons.joined(separator: "\n"))
  }

  private func show(_ sent: SentCertificates, from address: SocketAddress) {
    comment("# \(source) (\(address)) presents \(sent.leaf.summary)")
    for certificate in sent.others { comment("#   sent with it, not pinned: \(certificate.summary)") }
    comment(
      """
      # WARNING: this connection was not authenticated. An attacker on the path could have presented this key.
      # Ask the owner of \(source) for the key's pin, and compare, before you use this one.
      """)
  }

  private var hostAndPort: (String, UInt16)? {
    guard let server = try? HostPort(source, bareIPv6: .endsInPort), let port = server.port, !server.host.contains("/")
    else { return nil }
    return (server.host, port)
  }

  private func comment(_ text: String) { LogFile.standardError.write(string: "\(text)\n") }
}
