package import Language
import Observability
package import Traffic
import Upstream

/// The parts of a `proxy_pass` argument.
package struct PassedURL {
  /// The address; nil when it contains variables.
  package var authority: Authority?
  package var target: UpstreamTarget
  package var uri: [UInt8]?
  /// The URL as written, with its scheme and without its URI part.
  package var base: String

  package init(authority: Authority? = nil, target: UpstreamTarget, uri: [UInt8]? = nil, base: String) {
    self.authority = authority
    self.target = target
    self.uri = uri
    self.base = base
  }

  /// nil: each value of the target says it.
  package var scheme: UpstreamScheme? { target.scheme }
}

extension SettingsBuilder {
  /// Parses the URL of a line that names an upstream. nil after an error.
  package mutating func passedURL(_ directive: Directive, _ level: Level, _ dialect: PassDialect) -> PassedURL? {
    directive.arguments.first.flatMap { passedURL($0, directive, level, dialect) }
  }

  private mutating func passedURL(
    _ word: Word, _ directive: Directive, _ level: Level, _ dialect: PassDialect
  ) -> PassedURL? {
    let (text, schemes) = (word.text, dialect.schemes)
    let lower = text.lowercased()
    // With a variable in the scheme or in place of it, each value says its scheme.
    let fixed = lower.prefix { $0 != "$" }
    if fixed != lower[...],
      schemes.contains(where: { $0.spelling.count + 3 > fixed.count && "\($0.spelling)://".hasPrefix(fixed) })
    {
      return PassedURL(authority: nil, target: .url(template(word)), uri: nil, base: text)
    }
    if let standard = schemes.first(where: { $0.scheme == dialect.standardScheme }), !lower.contains("://") {
      let whole = Word("\(standard.spelling)://\(text)", at: word.location, quoted: word.quoted)
      return passedURL(whole, directive, level, dialect)
    }
    guard let (spelling, scheme) = schemes.first(where: { lower.hasPrefix("\($0.spelling)://") }) else {
      error(
        word.location, "invalid URL prefix in \"\(text)\"",
        hint: dialect.speaksHTTP
          ? "it must begin with \(schemes.reversed().map { "\($0.spelling)://" }.joined(separator: " or "))"
          : dialect.portForm)
      return nil
    }
    let rest = String(text.dropFirst(spelling.count + 3))
    if rest.contains("$") {
      let template = template(Word(rest, at: word.location, quoted: word.quoted))
      return PassedURL(authority: nil, target: .template(template, scheme), uri: nil, base: text)
    }
    let (authorityText, uri) = Self.splitURI(rest)
    if !dialect.takesPath, let uri {
      error(
        word.location, "\"\(directive.name)\" cannot have a URI part",
        hint: dialect.callsMethods
          ? "leave out \"\(uri)\": the path is the method's name"
          : "leave out \"\(uri)\": parameters tell the server what is asked for")
      return nil
    }
    if uri != nil, let kind = level.kindWithoutURI {
      error(
        word.location, "\"\(directive.name)\" cannot have URI part \(kind)",
        hint: "leave out \"\(uri ?? "")\": what would it replace?")
      return nil
    }
    do {
      let authority = try Authority(parsing: authorityText)
      if let form = dialect.portForm { try requirePort(of: authority, form) }
      return try target(authority, scheme, directive).map {
        PassedURL(
          authority: authority, target: .group($0, scheme), uri: uri.map { Array($0.utf8) },
          base: "\(scheme.rawValue)://\(authorityText)")
      }
    } catch {
      self.error(word.location, "\(error.reason) in \"\(directive.name)\" directive: \"\(text)\"", hint: error.hint)
      return nil
    }
  }

  /// Refuses a host without a port in a protocol that has no default port.
  package func requirePort(of authority: Authority, _ form: String) throws(Authority.ParseError) {
    guard case .host(let host, port: nil) = authority, namedGroups[host.lowercased()] == nil else { return }
    throw Authority.ParseError(reason: "no port in upstream", hint: "\(form); or an upstream's name")
  }

  /// Finds the `upstream` block of this name, or makes a group of the one address.
  package mutating func target(
    _ authority: Authority, _ scheme: UpstreamScheme, _ directive: Directive
  ) throws(Authority.ParseError) -> Int? {
    if case .host(let host, let port) = authority, let index = namedGroups[host.lowercased()] {
      if let port {
        throw .init(
          reason: "upstream \"\(host)\" may not have port \(port)",
          hint: "the servers of the group have their own ports")
      }
      return index
    }
    if case .host(let host, _) = authority, !host.contains("."),
      let nearest = Spelling.nearest(to: host.lowercased(), among: namedGroups.keys.sorted())
    {
      warning(
        directive.place(0), "\"\(host)\" is not an upstream block; sallyport resolves it as a host name",
        hint: "did you mean \"\(nearest)\"?")
    }
    return group(for: authority, defaultPort: scheme.defaultPort, at: directive.location)
  }

  /// Returns the group of one server for an address in `proxy_pass`. The same address always gets the same group.
  private mutating func group(for authority: Authority, defaultPort: UInt16, at place: SourceLocation) -> Int {
    let address = authority.upstreamAddress(defaultPort: defaultPort)
    let name = authority.proxyHost(defaultPort: defaultPort)
    let key = "\(name) \(address)"
    if let index = addressGroups[key] { return index }
    addressGroups[key] = groups.count
    var group = UpstreamGroupSettings(
      name: name, servers: [UpstreamServerSettings(address: address, location: place)], location: place)
    group.isOfStream = kind == .stream
    groups.append(group)
    return groups.count - 1
  }

  /// Splits the URI part off, in `host:80/path` and in `unix:/socket:/path`.
  private static func splitURI(_ text: String) -> (authority: String, uri: String?) {
    if text.lowercased().hasPrefix("unix:") {
      let path = text.dropFirst("unix:".count)
      guard let colon = path.firstIndex(of: ":") else { return (text, nil) }
      let uri = path[path.index(after: colon)...]
      return (String(text[..<colon]), uri.isEmpty ? nil : String(uri))
    }
    guard let start = text.firstIndex(where: { $0 == "/" || $0 == "?" }) else { return (text, nil) }
    let uri = String(text[start...])
    return (String(text[..<start]), uri.hasPrefix("?") ? "/\(uri)" : uri)
  }
}

extension LocationMatch {
  /// The name of the location's kind if nginx allows no URI part in it, for the message; otherwise nil.
  fileprivate var kindWithoutURI: String? {
    switch self {
    case .prefix, .prefixNoRegex, .exact: nil
    case .regex: "in a regular expression location"
    case .named: "in a named location"
    }
  }
}

extension Level {
  fileprivate var kindWithoutURI: String? {
    if case .conditional(_, let block, _) = self { block.rawValue } else { match.kindWithoutURI }
  }
}
