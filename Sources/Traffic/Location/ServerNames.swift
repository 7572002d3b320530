import Bytes
import Glibc
package import Language
import Observability
public import Patterns
import Transport

/// server_name (nginx: ngx_http_core_module): the names by which requests find a server block.
package enum ServerNames: DirectiveFeature {
  package static let chapter = Chapter.http
  private static let directive = "server_name"

  package static let directives: [DirectiveEntry] = [
    .local(
      "server_name", .everyServer, .words(1...Int.max, "NAME …"), "\"\"",
      "Names of the server: exact, `*.x`, `x.*`, `.x` or `~regex`.", repeatable: true,
      example: "server_name example.com *.example.com;", trust: .told),
    .inert("server_names_hash_max_size", [.http, .stream], because: "the tables grow as needed"),
    .inert("server_names_hash_bucket_size", [.http, .stream], because: "the tables grow as needed"),
  ]

  /// `$server_name`
  package static let variable = FeatureVariable(
    ofBoth: "server_name", "The first name of the server block that serves the request."
  ) { transaction, output in
    borrowing(transaction.server) { output.append($0.name) }
  }
  package static let variables = [variable]

  package static let definitions: [String: Definition] = [
    directive: { directive, defined in
      for word in directive.arguments where word.text.hasPrefix("~") {
        // The host is compared in lower case; nginx ignores case for a pattern with capitals.
        let pattern = String(word.text.dropFirst())
        defined.compile(pattern, at: word, caseless: pattern.utf8.contains { $0 &- 65 < 26 }, what: "server name")
      }
    }
  ]

  /// The names that count at a level, as written.
  package static func words(_ scope: Scope) -> [Word] { scope.list(directive).flatMap(\.arguments) }

  /// Builds the `server_name` lines. Without a line, the server has the empty name.
  package static func read(_ server: Scope, _ builder: inout SettingsBuilder) -> [ServerName] {
    let words = server.own(directive).flatMap(\.arguments)
    if words.isEmpty { return [.exact("")] }
    return words.compactMap { name($0, &builder) }
  }

  /// Returns nginx's `$server_name`: the first name as written, also that of a `~regex`, or `.x` without its dot.
  package static func primary(_ server: Scope) -> String {
    guard let first = server.own(directive).first?.arguments.first else { return "" }
    if first.text.hasPrefix("~") { return first.text }
    if first.text.hasPrefix(".") { return String(first.text.dropFirst()) }
    return first.text.lowercased() == "$hostname" ? hostName : first.text.lowercased()
  }

  private static func name(_ word: Word, _ builder: inout SettingsBuilder) -> ServerName? {
    if word.text.hasPrefix("~") {
      return builder.variables.pattern(at: word).map { .regex($0, slots: builder.variables.namedCaptures(of: $0)) }
    }
    let text = word.text.lowercased()
    if text == "$hostname" { return .exact(hostName) }
    let isSuspicious = text.contains("/") || text.contains(":") || text.contains("$")
    if isSuspicious, !isIPv6(text) {
      builder.warning(
        word.location, "server name \"\(word.text)\" has suspicious symbols", hint: "a name has no scheme, port or path"
      )
    }
    if text.contains("..") || text.contains(" ") { return invalid(word, &builder) }
    if text.hasPrefix("*.") || text.hasPrefix(".") {
      let suffix = text.hasPrefix("*.") ? String(text.dropFirst()) : text
      guard suffix.utf8.count > 1, !suffix.contains("*") else { return invalid(word, &builder) }
      return .leadingWildcard(suffix: suffix, matchesBare: text.hasPrefix("."))
    }
    if text.hasSuffix(".*") {
      let prefix = String(text.dropLast())
      guard prefix.utf8.count > 1, !prefix.contains("*") else { return invalid(word, &builder) }
      return .trailingWildcard(prefix: prefix)
    }
    return text.contains("*") ? invalid(word, &builder) : .exact(text)
  }

  /// Whether the name is an IPv6 address in brackets, as a Host has it.
  private static func isIPv6(_ name: String) -> Bool {
    guard name.hasPrefix("["), name.hasSuffix("]") else { return false }
    return SocketAddress(literal: String(name.dropFirst().dropLast()), port: 0) != nil
  }

  private static func invalid(_ word: Word, _ builder: inout SettingsBuilder) -> ServerName? {
    builder.error(
      word.location, "invalid server name or wildcard \"\(word.text)\"",
      hint: "\"*\" stands for whole labels at one end: *.example.com, www.example.*; else a ~regex")
    return nil
  }

  private static var hostName: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, 255) == 0 else { return "" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).lowercased()
  }
}

/// One `server_name` argument.
public enum ServerName: Sendable {
  /// Lower-case. The empty name is for requests without Host.
  case exact(String)
  /// `*.example.com` (suffix ".example.com"), or `.example.com` (also the bare name); lower-case.
  case leadingWildcard(suffix: String, matchesBare: Bool)
  /// `www.example.*` (prefix "www.example."); lower-case.
  case trailingWildcard(prefix: String)
  case regex(RegularExpression, slots: [NamedCapture])
}

extension ServerName {
  package var asWritten: String {
    switch self {
    case .exact(let name): name
    case .leadingWildcard(let suffix, let matchesBare): matchesBare ? suffix : "*\(suffix)"
    case .trailingWildcard(let prefix): "\(prefix)*"
    case .regex(let expression, _): "~\(expression.pattern)"
    }
  }
}

/// On each address, a name belongs to one server; as in nginx, the first server keeps it.
enum ServerNameRule {
  static func conflicts(_ listeners: [ListenerSettings], _ servers: [ServerSettings]) -> [Diagnostic] {
    listeners.flatMap { listener in
      var firsts: [String: Int] = [:]
      var found: [Diagnostic] = []
      for index in listener.servers where index < servers.count {
        for name in servers[index].names.compactMap(\.spelling) {
          if let first = firsts[name] {
            found.append(
              Diagnostic(
                .warning, at: servers[index].location,
                "conflicting server name \"\(name)\" on \(listener.address), ignored",
                hint: first == index
                  ? "the name is there twice" : "the server at \(servers[first].location) has the name"))
          } else {
            firsts[name] = index
          }
        }
      }
      return found
    }
  }
}

extension ServerName {
  /// A key that is equal for names that match the same hosts; nil for regular expressions, which are tried in order.
  fileprivate var spelling: String? {
    switch self {
    case .exact(let name): name
    case .leadingWildcard(let suffix, let matchesBare): matchesBare ? suffix : "*\(suffix)"
    case .trailingWildcard(let prefix): "\(prefix)*"
    case .regex: nil
    }
  }
}
