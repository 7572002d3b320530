import Crypto
import Forward
import Language
import Observability
import TLS
import Traffic

/// `ssl_certificate` and `ssl_certificate_key` with variables, and `ssl_certificate_cache`.
extension ServerTLS {
  /// Builds a pair of which at least one file's name has variables. nil: an error is reported. `server`: the value of
  /// `$server_name`.
  static func namedCertificate(
    _ certificate: Directive, _ key: Directive?, server: String, _ builder: inout SettingsBuilder
  ) -> NamedCertificate? {
    let paths = [certificate, key].compactMap { $0 }.map { certificatePath($0, server: server, &builder) }
    guard let first = paths.first, let certificate = first, paths.allSatisfy({ $0 != nil }) else { return nil }
    return NamedCertificate(certificate: certificate, key: paths.dropFirst().first ?? nil)
  }

  private static func certificatePath(_ line: Directive, server: String, _ builder: inout SettingsBuilder)
    -> CertificatePath?
  {
    guard let word = line.arguments.first else { return nil }
    let others = ["store:", "engine:", "credential:"]
    if let prefix = others.first(where: { word.text.hasPrefix($0) }) {
      builder.error(
        word.location, "\"\(prefix)\" in \"\(line.name)\" is not supported where a certificate has variables",
        hint: "name files: sallyport reads nothing else during a handshake")
      return nil
    }
    let prefix = MaterialReference.textPrefix, isContent = word.text.hasPrefix(prefix)
    let text = isContent ? String(word.text.dropFirst(prefix.count)) : word.text
    let (count, template) = (
      builder.diagnostics.count, builder.template(Word(text, at: word.location, quoted: word.quoted))
    )
    guard builder.diagnostics.count == count else { return nil }
    var parts: [CertificatePath.Part] = []
    for (index, part) in template.parts.enumerated() {
      switch part {
      case .literal(let bytes): parts.append(.literal(String(decoding: bytes, as: UTF8.self)))
      case .variable(.feature(ServerNames.variable)):
        guard !server.isEmpty, !server.utf8.contains(0x2F) else {
          builder.error(
            word.location, "the server has no name that can be part of a file's name, for $server_name",
            hint: "server_name NAME; or write the file's name out")
          return nil
        }
        parts.append(.literal(server))
      case .variable(.slot(let slot)) where builder.computed[slot] != nil:
        var following = ""
        if index + 1 < template.parts.count, case .literal(let bytes) = template.parts[index + 1] {
          following = String(decoding: bytes, as: UTF8.self)
        }
        guard let text = handshakeText(slot, word, server: server, following: following, &builder) else { return nil }
        parts.append(.computed(text))
      case .variable(let variable):
        guard let known = variable.inHandshake else {
          builder.error(
            word.location, "\"\(word.text)\" has a variable that is not known when the certificate is chosen",
            hint: knownInHandshakes)
          return nil
        }
        parts.append(.variable(known))
      }
    }
    return CertificatePath(joined(parts), relativeTo: builder.folder, isContent: isContent, location: word.location)
  }

  private static let knownInHandshakes =
    "$ssl_server_name, $server_name, $server_addr, $server_port and $remote_addr are, and so is a map, geo or "
    + "split_clients of them"

  /// The variable of a `map`, `geo` or `split_clients`, if a handshake knows all that it needs. nil: an error is reported.
  /// `following`: the text behind it.
  private static func handshakeText(
    _ slot: Int, _ word: Word, server: String, following: String, _ builder: inout SettingsBuilder
  ) -> HandshakeText? {
    // Circles have been reported.
    guard !builder.hasCircles else { return nil }
    let names = builder.variables.slotNames, name = names[slot] ?? ""
    let known = HandshakeTables(builder.computed, serverName: server)
    switch known.hindrance(to: slot) {
    case .variable(let variable)?:
      let culprit = if case .slot(let inner) = variable { names[inner] ?? "" } else { variable.name }
      builder.error(
        word.location, "\"$\(name)\" needs \"$\(culprit)\", which is not known when the certificate is chosen",
        hint: knownInHandshakes)
      return nil
    case .forwardedAddress?:
      builder.error(
        word.location, "\"$\(name)\" needs X-Forwarded-For, which is not known when the certificate is chosen",
        hint: "a geo without \"proxy\" lines looks up the connection's address")
      return nil
    case nil: break
    }
    let lines = known.slots(of: slot).sorted().compactMap { builder.tables[$0]?.written }
    let folders = Set(
      known.beginnings(of: slot, following: following).map { CertificatePath.folder(of: $0, in: builder.folder) })
    return HandshakeText(name: name, definition: lines.joined(separator: "\n"), folders: folders.sorted()) { facts in
      known.value(of: slot, facts)
    }
  }

  /// Joins neighbouring literals, so that equal names are equal values.
  private static func joined(_ parts: [CertificatePath.Part]) -> [CertificatePath.Part] {
    parts.reduce(into: []) { joined, part in
      if case .literal(let text) = part, case .literal(let former)? = joined.last {
        joined[joined.count - 1] = .literal(former + text)
      } else {
        joined.append(part)
      }
    }
  }
}

extension CertificateCacheSettings {
  /// nginx's `off | max=N [inactive=TIME] [valid=TIME]`; nil for `off`.
  static func read(_ line: Directive, _ builder: inout SettingsBuilder) -> Self? {
    if line.arguments.count == 1, line.text(0) == "off" { return nil }
    var max: Int?
    var settings = Self(max: 1)
    for word in line.arguments {
      let parts = word.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      switch (parts[0], parts.count == 2 ? parts[1] : "") {
      case ("max", let text):
        guard let number = Quantity.number(text), (1...100_000).contains(number) else {
          builder.refuse(word, hint: "max=1 to max=100000: certificates and keys to keep")
          return nil
        }
        max = number
      case ("inactive", let text):
        guard let time = Quantity.seconds(text) else { return invalidTime(word, &builder) }
        settings.inactive = time
      case ("valid", let text):
        guard let time = Quantity.seconds(text) else { return invalidTime(word, &builder) }
        settings.valid = time
      default:
        builder.refuse(word, hint: "off, or max=NUMBER [inactive=TIME] [valid=TIME]")
        return nil
      }
    }
    guard let max else {
      builder.error(
        line.location, "\"\(line.name)\" must have the \"max\" parameter",
        hint: "\(line.name) max=1000;")
      return nil
    }
    settings.max = max
    return settings
  }

  private static func invalidTime(_ word: Word, _ builder: inout SettingsBuilder) -> Self? {
    builder.refuse(word, hint: "a time in seconds or longer units: valid=60s")
    return nil
  }
}

extension Directive {
  /// The words of the directive and of its block. Quotes are left out: no text of a table can hold a NUL.
  fileprivate var written: String {
    ([name] + arguments.map(\.text)).joined(separator: "\0") + (block ?? []).map { "\n\($0.written)" }.joined()
  }

  var hasVariables: Bool { arguments.contains { $0.text.contains("$") } }
}

extension Variable {
  /// The variable, if its value is known when the certificate is chosen. Its text there is that of the ClientHello and
  /// the connection, even where a request's variable of the name would change later (`set_real_ip_from`).
  fileprivate var inHandshake: HandshakeVariable? {
    if case .simple(let simple) = self { HandshakeVariable(rawValue: simple.rawValue) } else { nil }
  }
}
