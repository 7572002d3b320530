import Bytes
import Forward
package import HTTP
import Language
package import Traffic

/// early_hints (nginx: ngx_http_core_module): passes an upstream's 103 on to the client (RFC 8297), where a condition of the
/// location holds.
struct EarlyHints: FeatureSettings, LocationFeature {
  /// A 103 is passed on if one of these is neither empty nor `0`.
  var conditions: [Template] = []

  // MARK: Directives

  static let chapter = Chapter.http

  static let rows: [Row<EarlyHints>] = [
    .line(
      "early_hints", .everyHTTP, .words(1...Int.max, "CONDITION …"), initial: "",
      "Forwards an upstream's 103 (Early Hints) if a condition is neither empty nor `0`.",
      example: "early_hints $http_sec_fetch_mode;"
    ) { hints, line, builder in hints.conditions = line.arguments.map { builder.template($0) } }
  ]

  var isInEffect: Bool { !conditions.isEmpty }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.interimHooks.append(LiveEarlyHints(conditions))
  }
}

/// `early_hints` of a location in one worker.
package final class LiveEarlyHints: InterimHook {
  private let conditions: [CompiledTemplate]

  init(_ conditions: [Template]) { self.conditions = conditions.map(\.compiled) }

  /// Nothing is sent once the final response has begun.
  package override func take(_ hints: ResponseHead, of exchange: Exchange) {
    guard hints.status == 103, exchange.progress.state == .waiting, isWanted(exchange),
      let pass = UpstreamHandler.pass(of: exchange)
    else { return }
    let outgoing = exchange.response
    outgoing.reset(over: hints)
    outgoing.status = 103
    let bytes = hints.bytes.readable
    for field in hints.fields where !field.isHopByHop && field.id != .contentLength {
      if !pass.hidden.contains(field, in: bytes) { outgoing.forward(field) }
    }
    exchange.stream?.sendInterim(head: outgoing)
    outgoing.reset()
  }

  /// As in nginx: at least one condition is neither empty nor `0`.
  private func isWanted(_ exchange: Exchange) -> Bool {
    conditions.contains { condition in
      let value = condition.bytes(exchange)
      return !value.isEmpty && value != [0x30]
    }
  }
}
