import Forward
import Language
import Observability
import Traffic

/// The directives of a protocol to upstreams that say what those of `proxy_pass` say, under a prefix of their own:
/// `grpc_read_timeout` is for a `grpc_pass` what `proxy_read_timeout` is for a `proxy_pass`.
struct PassNames: Sendable {
  /// What names of the proxy module begin with.
  private static let other = "proxy_"

  /// What the names of the protocol begin with.
  let prefix: String
  /// The rows of the proxy module that the protocol has too, without a prefix.
  let taken: Set<String>
  /// Whether it has the rows of TLS.
  var takesTLS = false
  /// A row of the protocol whose name is the other one's behind the prefix, as `grpc_proxy_protocol`; nil: there is none.
  var whole: String?

  /// The words of a text.
  static func words(_ text: String) -> Set<String> {
    Set(text.split(whereSeparator: \.isWhitespace).map(String.init))
  }

  /// The rows of other features as the protocol has them.
  var directives: [DirectiveEntry] {
    // The features of a protocol aren't asked: their rows are made of those of others.
    Features.each.compactMap { ForwardKinds.of($0)?.pass }.filter { $0.kinds.contains(.http) }
      .flatMap { $0.directives }.compactMap { row($0) }
  }

  /// The row of another feature as the protocol has it; nil: it has none.
  private func row(_ row: DirectiveEntry) -> DirectiveEntry? {
    guard row.name.hasPrefix(Self.other) else { return nil }
    let name = String(row.name.dropFirst(Self.other.count))
    guard taken.contains(name) || takesTLS && name.hasPrefix("ssl_") else { return nil }
    var own = row.renamed(Self.other, prefix)
    own.contexts.subtract(.everyStream)
    return own
  }

  /// Each directive of the protocol under the name of the proxy module's, and none of the proxy module.
  func view(_ scope: Scope) -> Scope {
    scope.renamed { name in
      if name == whole { return String(name.dropFirst(prefix.count)) }
      if name.hasPrefix(Self.other) { return nil }
      return name.hasPrefix(prefix) ? Self.other + name.dropFirst(prefix.count) : name
    }
  }

  /// The directive that says for the protocol what this one says for a `proxy_pass`. It need not exist.
  private func directive(for name: String) -> String {
    prefix + name == whole ? prefix + name : name.replacing(Self.other, with: prefix)
  }

  /// Builds a pass of the protocol like a `proxy_pass`. Messages about its directives have their names. `parts`: makes what
  /// the feature of the line itself has at the pass, and may change the dialect.
  func pass(
    _ line: Directive, _ level: Level, _ dialect: PassDialect, _ builder: inout SettingsBuilder,
    parts: (inout PassDialect, inout SettingsBuilder) -> [any PassPart]
  ) -> UpstreamPass? {
    let others = builder.features.ofUpstream(.http).compactMap { $0.line(in: level.scope)?.name }
    if let idle = level.scope.directives.first(where: { $0.name.hasPrefix(Self.other) && !others.contains($0.name) }) {
      let own = directive(for: idle.name)
      let isRow = builder.features.table.entries(named: own).contains { $0.status == .supported }
      builder.warning(
        idle.location, "\"\(idle.name)\" has no effect on \(line.name)",
        hint: isRow ? "write \(own)" : "leave it out: it is not for \(dialect.name)")
    }
    let before = builder.diagnostics.count
    let viewed = level.mapping(view)
    let pass = builder.passedURL(line, viewed, dialect).map { url in
      var dialect = dialect
      let own = parts(&dialect, &builder)
      return builder.pass(line, viewed, url, dialect, parts: own)
    }
    for index in before..<builder.diagnostics.count { builder.diagnostics[index].replace(Self.other, with: prefix) }
    return pass
  }
}
