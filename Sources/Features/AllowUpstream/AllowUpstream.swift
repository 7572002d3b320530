import Forward
import HTTP
import Language
import Observability
import Traffic

/// `proxy_allow_upstream` (nginx: upstream module, commercial): conditions under which a request may go to the upstream.
struct AllowUpstream: PassFeature, PassPart {
  private let conditions: [Template]

  static let chapter = Chapter.proxy
  private static let row = DirectiveEntry.value(
    "proxy_allow_upstream", .everyHTTP, .words(1...Int.max, "CONDITION …"), "",
    "A request goes to the upstream only if no condition, a text with variables, is empty or `0`. Other requests get 502. The conditions are judged once, before a server is chosen.",
    example: "proxy_allow_upstream $arg_key;", trust: .told)
  static let directives = [row]

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    row.line(in: draft.scope).map { line in
      AllowUpstream(conditions: line.arguments.map { builder.template($0) })
    }
  }

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    func words(_ pass: UpstreamPass) -> String? {
      pass[AllowUpstream.self]?.conditions.map(\.asWritten).joined(separator: " ")
    }
    switch (words(old), words(new)) {
    case (let one?, nil): found.opens("requests go to the upstream without the conditions \(one)")
    case (nil, let other?): found.closes("requests go to the upstream only under the conditions \(other)")
    case (let one?, let other?) where one != other:
      found.other("requests go to the upstream under the conditions \(other) (was \(one))")
    default: break
    }
  }

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    parts.requestHooks.append(Hook(conditions.map(\.compiled)))
  }

  var ways: LocationWays {
    LocationWays(
      conditions: conditions.map { AccessCondition(asking: .variable, .content, "\($0.asWritten) neither empty nor 0") }
    )
  }

  func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    [PassPolicyLine("only if", conditions.map(\.asWritten).joined(separator: " and "))]
  }

  private final class Hook: RequestHook {
    private let conditions: [CompiledTemplate]

    init(_ conditions: [CompiledTemplate]) { self.conditions = conditions }

    override func begin(
      _ exchange: Exchange, _ handler: ProxyHandler
    ) throws(ErrorResponse) -> ExchangeHook? {
      try rehearse(exchange)
      return nil
    }

    override func rehearse(_ exchange: Exchange) throws(ErrorResponse) {
      for condition in conditions {
        let value = condition.bytes(exchange)
        // What a variable that can't be computed was meant to say isn't known.
        guard !exchange.variables.isBroken else {
          exchange.setBroken(false)
          throw ErrorResponse(500)
        }
        if value.isEmpty || value == [0x30] {
          exchange.log(.info, "access to the upstream was denied")
          throw ErrorResponse(502)
        }
      }
    }
  }
}
