import Forward
import Observability
import Traffic

/// Follows constants through `set`, `map`, `geo` and `split_clients` to each `proxy_pass` whose URL begins with variables,
/// and has no trust settings.
///
/// Why: a request that its variables lead to an https upstream would get 502. Where constants say the scheme, the answer
/// is known at load: an error for https, and nothing to say for http.
struct TargetSchemeRule {
  /// What variables begin with, by slot; those that no `set` has reached are missing.
  private typealias Values = [Int: TextStarts]

  private let computed: [Int: ComputedVariable]
  /// The variables that only `set` gives a value.
  private let setNames: [Int: String]
  /// What `$scheme` can be.
  private let scheme: TextStarts
  /// What `set` gives variables anywhere in the server block: a request may come by way of another location.
  private var anywhere: [Int: [Template]] = [:]
  private var found: [Diagnostic] = []
  /// The locations whose variables never lead to an https upstream.
  fileprivate private(set) var plain: Set<ObjectIdentifier> = []
  /// How many templates are still followed: values of tables can multiply.
  private var budget = 0

  /// `scheme`: the one of all clients of the server block; nil if they have either.
  fileprivate static func diagnostics(_ root: LocationSettings, _ builder: SettingsBuilder, scheme: String?)
    -> [Diagnostic]
  {
    var isNeeded = false
    root.visitNested { isNeeded = isNeeded || $0[UpstreamPass.self]?.openTarget != nil }
    guard isNeeded else { return [] }
    return TargetSchemeRule(
      root, computed: builder.computed, setNames: builder.variables.setNames, scheme: scheme
    ).found
  }

  fileprivate init(
    _ root: LocationSettings, computed: [Int: ComputedVariable], setNames: [Int: String], scheme: String?
  ) {
    self.computed = computed
    self.setNames = setNames
    self.scheme = scheme.map { TextStarts($0.utf8) } ?? .unknown
    root.visitNested { note($0[Rewrite.self]?.steps ?? []) }
    let server = run(root[Rewrite.self]?.steps ?? [], from: [:])
    for location in root.locations { walk(location, server: server) }
  }

  private mutating func note(_ steps: [RewriteStep]) {
    for step in steps {
      switch step {
      case .set(let slot, let template): anywhere[slot, default: []].append(template)
      case .if(let block): note(block.steps)
      case .setArguments, .return, .rewrite, .break: break
      }
    }
  }

  /// As in nginx, a nested location doesn't run the `set` lines around it, only those of the server block.
  private mutating func walk(_ location: LocationSettings, server: Values) {
    let steps = location[Rewrite.self]?.steps ?? []
    judge(location, run(steps, from: server))
    for inner in location.locations { walk(inner, server: server) }
    for block in location.conditional { judge(block, run(steps, from: server, through: block)) }
  }

  /// The variables after these steps. `through`: the block of an `if` whose condition holds.
  private mutating func run(
    _ steps: [RewriteStep], from start: Values, through taken: LocationSettings? = nil
  ) -> Values {
    var values = start
    for step in steps {
      switch step {
      case .set(let slot, let template):
        budget = Self.standardBudget
        values[slot] = starts(of: template, values, depth: 0)
      case .if(let block):
        if case .matches(_, _, let captures) = block.condition {
          for capture in captures { values[capture.slot] = .unknown }
        }
        let inner = run(block.steps, from: values)
        if let taken, block.location === taken {
          values = inner
        } else {
          for (slot, value) in inner { values[slot, default: .none].formUnion(value) }
        }
      case .rewrite(let rule): for capture in rule.captures { values[capture.slot] = .unknown }
      case .break, .return: return values
      case .setArguments: break
      }
    }
    return values
  }

  private mutating func judge(_ location: LocationSettings, _ values: Values) {
    guard let pass = location[UpstreamPass.self], case .url(let target) = pass.target.upstream else { return }
    budget = Self.standardBudget
    let starts = starts(of: target, values, depth: 0)
    let secure = pass.dialect.schemes.filter { $0.scheme == .https }
    let isSecure = secure.contains { starts.texts.contains("\($0.spelling)://") }
    if !isSecure, !starts.isOpen { plain.insert(ObjectIdentifier(location)) }
    guard pass.openTarget != nil, !secure.isEmpty else { return }
    if isSecure {
      report(UpstreamTrustRule.nothingSaid(of: "https", at: pass.location), of: pass)
    } else if starts.isOpen {
      let diagnostic = Diagnostic(
        .warning, at: pass.location,
        "a request whose variables lead to an https upstream gets 502: there are no trust settings",
        hint: UpstreamTrustRule.trustHint)
      report(diagnostic, of: pass)
    }
  }

  private mutating func report(_ diagnostic: Diagnostic, of pass: UpstreamPass) {
    found.append(diagnostic)
    found[found.count - 1].replace("proxy_", with: pass.dialect.prefix)
  }

  // MARK: Values

  private static let standardBudget = 10_000
  private static let maxDepth = 16

  private mutating func starts(of template: Template, _ values: Values, depth: Int) -> TextStarts {
    budget -= 1
    guard budget > 0, depth < Self.maxDepth else { return .unknown }
    var starts = TextStarts([])
    for part in template.parts {
      if starts.isSettled { break }
      switch part {
      case .literal(let bytes): starts.append(TextStarts(bytes))
      case .variable(.simple(.scheme)): starts.append(scheme)
      case .variable(.slot(let slot)): starts.append(self.starts(ofSlot: slot, values, depth: depth + 1))
      case .variable(.settable(let slot, _)): starts.append(values[slot] ?? .unknown)
      case .variable: starts.append(.unknown)
      }
    }
    return starts
  }

  private mutating func starts(ofSlot slot: Int, _ values: Values, depth: Int) -> TextStarts {
    if let value = values[slot] { return value }
    if let variable = computed[slot] {
      guard let possible = variable.settings.possibleValues else { return .unknown }
      return union(of: possible, values, depth)
    }
    guard setNames[slot] != nil else { return .unknown }
    let found = union(of: anywhere[slot] ?? [], values, depth)
    // Of several, the way of a request decides.
    return found.texts.count > 1 ? .unknown : found
  }

  private mutating func union(of templates: [Template], _ values: Values, _ depth: Int) -> TextStarts {
    var union = TextStarts.none
    for template in templates { union.formUnion(starts(of: template, values, depth: depth)) }
    return union
  }
}

extension UpstreamPass {
  /// The URL, if it begins with variables and the location has no trust settings; otherwise nil.
  fileprivate var openTarget: Template? {
    if case .url(let template) = target.upstream, trust.tls == nil { template } else { nil }
  }
}

extension HTTPSettings {
  /// The locations of a server block whose upstream's URL has its scheme of variables, and is never one of https.
  package func plainLocations(ofServer index: Int) -> Set<ObjectIdentifier> {
    let schemes = Set(listeners(ofServer: index).map { $0.isTLS ? "https" : "http" })
    return TargetSchemeRule(
      servers[index].root, computed: computed, setNames: setNames, scheme: schemes.count == 1 ? schemes.first : nil
    ).plain
  }
}

extension UpstreamTLS {
  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.kind == .http else { return }
    let scheme = block.isTLS ? (block.alsoPlain ? nil : "https") : "http"
    builder.diagnostics += TargetSchemeRule.diagnostics(block.root, builder, scheme: scheme)
  }
}
