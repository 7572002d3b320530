import Observability
import Language

/// Builds what decides the way of a request through the phases: `limit_except`, `valid_referers` and others.
extension SettingsBuilder {
  mutating func flow(_ level: Level) -> FlowSettings {
    let scope = level.scope
    var flow = FlowSettings()
    flow.recursesErrorPages = scope.flag("recursive_error_pages") ?? false
    flow.logsRewrites = scope.flag("rewrite_log") ?? false
    flow.warnsOfUnset = scope.flag("uninitialized_variable_warn") ?? true
    flow.methodLimit = scope.own("limit_except").first.map { methodLimit($0, level) }
    flow.referers = referers(scope)
    flow.trace = scope.traceMode
    return flow
  }

  private static let methods = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK",
    "UNLOCK", "PATCH",
  ]

  private mutating func methodLimit(_ directive: Directive, _ level: Level) -> MethodLimit {
    var names: [String] = []
    for word in directive.arguments {
      guard Self.methods.contains(word.text.uppercased()) else {
        error(
          word.location, "invalid method \"\(word.text)\"", hint: "one of \(Self.methods.joined(separator: ", "))")
        continue
      }
      names.append(word.text.uppercased())
    }
    if names.contains("GET") { names.append("HEAD") }
    let inner = Level.conditional(Scope(directive.block ?? [], outer: level.scope), .limitExcept, outer: level)
    return MethodLimit(methods: names.map { Array($0.utf8) }, location: location(inner, at: directive.location))
  }

  private mutating func referers(_ scope: Scope) -> RefererSettings? {
    let lines = scope.list("valid_referers")
    guard let first = lines.first else { return nil }
    var referers = RefererSettings()
    var names = HostNames<[UInt8]?>()
    for word in lines.flatMap(\.arguments) {
      switch word.text {
      case "none": referers.allowsNone = true
      case "blocked": referers.allowsBlocked = true
      case "server_names":
        let servers = scope.list("server_name").flatMap(\.arguments)
        for name in servers where name.text.hasPrefix("~") {
          if let pattern = variables.pattern(at: name) { referers.namePatterns.append(pattern) }
        }
        for name in servers where !name.text.hasPrefix("~") {
          _ = names.add(name.text.lowercased(), nil, areWild: true)
        }
      case let text where text.hasPrefix("~"):
        if let pattern = variables.pattern(at: word) { referers.patterns.append(pattern) }
      case let text:
        let host = text.prefix { $0 != "/" }
        let path = text.dropFirst(host.count)
        if let fault = names.add(host.lowercased(), path.isEmpty ? nil : Array(path.utf8), areWild: true) {
          error(
            word.location, "\(fault.rawValue) \"\(text)\"", hint: "a host name, *.NAME or NAME.*, and a path after it")
        }
      }
    }
    referers.exact = names.exact
    referers.suffixes = names.suffixes
    referers.prefixes = names.prefixes
    if names.isEmpty && referers.patterns.isEmpty && referers.namePatterns.isEmpty {
      error(
        first.location,
        "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer",
        hint: "name a host: valid_referers none blocked server_names;")
    }
    return referers
  }
}

/// Collects values by host name, as nginx's `ngx_hash_add_key`.
struct HostNames<Value> {
  enum Fault: String {
    case invalid = "invalid hostname or wildcard"
    case conflicting = "conflicting parameter"
  }

  private(set) var exact: [[UInt8]: Value] = [:]
  private(set) var suffixes: [[UInt8]: Value] = [:]
  private(set) var prefixes: [[UInt8]: Value] = [:]

  var isEmpty: Bool { exact.isEmpty && suffixes.isEmpty && prefixes.isEmpty }

  /// Adds a lower-case name. `areWild`: `*.x`, `.x` and `x.*` are wildcards.
  mutating func add(_ name: String, _ value: Value, areWild: Bool) -> Fault? {
    func claim(_ table: inout [[UInt8]: Value], _ key: some StringProtocol) -> Fault? {
      let key = Array(key.utf8)
      guard table[key] == nil else { return .conflicting }
      table[key] = .some(value)
      return nil
    }
    guard areWild else { return claim(&exact, name) }
    if name.contains("..") || name.utf8.count(where: { $0 == 0x2A }) > 1 { return .invalid }
    if name.hasPrefix("."), name.utf8.count > 1 {
      return claim(&suffixes, name) ?? claim(&exact, name.dropFirst())
    }
    if name.hasPrefix("*."), name.utf8.count > 2 { return claim(&suffixes, name.dropFirst()) }
    if name.hasSuffix(".*"), name.utf8.count > 2 { return claim(&prefixes, name.dropLast()) }
    return name.contains("*") ? .invalid : claim(&exact, name)
  }
}
