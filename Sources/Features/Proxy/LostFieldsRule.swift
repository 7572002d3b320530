import Forward
import Language
import Observability
import Traffic

/// Warns of a level whose own lines that tell the upstream something, such as `proxy_set_header`, replace those around it, so that the upstream is no longer told who
/// the client is.
enum LostFieldsRule {
  /// The longest list of names in a message.
  private static let maximumNames = 8

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    if let feature = UpstreamPass.naming(level.scope, builder.features).last { judge(level.scope, feature, &builder) }
  }

  private static func judge(_ scope: Scope, _ feature: any UpstreamFeature.Type, _ builder: inout SettingsBuilder) {
    // Nothing of a client is meant for such an upstream.
    guard feature.view(scope).passesRequestFields else { return }
    let lines = feature.tellingLines(scope).inEffect
    guard let first = lines.first else { return }
    var level: Scope? = scope
    while let next = level, feature.tellingLines(next).own.isEmpty { level = next.outer }
    guard let outer = level?.outer else { return }
    let kept = Set(lines.map { $0.text(0).lowercased() })
    let lost = feature.tellingLines(outer).inEffect.filter { !kept.contains($0.text(0).lowercased()) }
    guard let place = lost.first?.location else { return }
    // What the upstream is told here, under any name.
    let origins = VariableOrigins(at: scope, &builder)
    let own = lines.flatMap { origins.variables(decidingOn: builder.template($0, 1)) }
    let identity = own.map { $0 == .simple(.ssl_client_verify) ? 0 : weight($0) }.max() ?? 0
    let outerOrigins = VariableOrigins(at: outer, &builder)
    let told = lost.map { line in
      // A Host names the server, whatever decides on it.
      let variables =
        ["host", "http_host"].contains(line.text(0).lowercased())
        ? [] : outerOrigins.variables(decidingOn: builder.template(line, 1))
      return (
        line: line, weight: variables.map(weight).max() ?? 0,
        isMissing: variables.contains { weight($0) > identity && !own.contains($0) }
      )
    }
    guard told.contains(where: \.isMissing) else { return }
    // What comes from the certificate stands first.
    var names: [String] = []
    for weight in [2, 1, 0] {
      for entry in told where entry.weight == weight && !names.contains(entry.line.text(0)) {
        names.append(entry.line.text(0))
      }
    }
    let rest = names.count > maximumNames ? " and \(names.count - maximumNames) more" : ""
    let list = names.prefix(maximumNames).joined(separator: ", ") + rest
    builder.warning(
      first.location,
      "\"\(first.name)\" replaces the lines around it, so the upstream isn't told who the client is: \(list)",
      hint: "repeat the lines here, or set all of them outside; they are at \(place)")
  }

  /// 2: from the client's certificate. 1: otherwise of who the client is.
  private static func weight(_ variable: Variable) -> Int {
    switch variable {
    case .simple(let variable) where variable.rawValue.hasPrefix("ssl_client_"): 2
    case .simple(.remote_addr), .simple(.realip_remote_addr), .simple(.proxy_add_x_forwarded_for),
      .simple(.proxy_protocol_addr), .simple(.remote_user):
      1
    case .feature(let variable): variable.saysClient ? 2 : 0
    case .settable(_, let own): weight(own)
    default: 0
    }
  }
}
