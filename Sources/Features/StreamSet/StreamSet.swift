import Forward
import Language
import Observability
import Traffic

/// set in stream (nginx: ngx_stream_set_module).
struct StreamSet: LocationFeature {
  private var steps: [(slot: Int, value: Template)]

  static let chapter = Chapter.stream
  static let kinds: Set<TrafficKind> = [.stream]

  static let directives: [DirectiveEntry] = [
    .local(
      "set", .streamServer, .words(2...2, "$VARIABLE VALUE"),
      "Sets a variable when the connection begins, before what TLS tells is known.", repeatable: true,
      example: "set $backend db;", trust: .told)
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> StreamSet? {
    var steps: [(slot: Int, value: Template)] = []
    for line in directives[0].lines(in: level.scope) {
      guard let slot = builder.variables.slots[line.text(0).dropFirst().lowercased()] else { continue }
      steps.append((slot, builder.template(line, 1)))
    }
    return steps.isEmpty ? nil : StreamSet(steps: steps)
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    for step in steps { parts.steps.add(preaccess: SetStep(slot: step.slot, step.value.compiled)) }
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let before = (old?.steps ?? []).map { $0.value.text(names.old) }
    let after = (new?.steps ?? []).map { $0.value.text(names.new) }
    if before != after { found.other("set has other values: \(after.joined(separator: ", "))") }
  }
}
