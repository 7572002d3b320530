import Bytes
import Forward
import HTTP
import Language
import Observability
import Traffic

/// limit_rate (nginx: ngx_http_core_module): the speed of one response.
///
/// The folder is the whole feature: the directives and what they set here, and what happens to a response in `ResponsePacer`.
struct LimitRate: FeatureSettings, LocationFeature, PassFeature {
  /// Bytes per second, as a size of nginx; nil or 0: no limit.
  var rate: Template?
  /// Bytes that go at full speed, as a size of nginx.
  var free: Template?
  /// The slot of `set $limit_rate`, if the configuration has one anywhere.
  var slot: Int?

  // MARK: Directives

  static let chapter = Chapter.limits
  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<LimitRate>] = [
    .line(
      "limit_rate", levels, .words(1...1, "SIZE"), initial: "0",
      "Bytes per second of a response, with variables if need be; 0 means no limit. `set $limit_rate` and the upstream's"
        + " X-Accel-Limit-Rate take precedence. It counts the body alone (nginx: the head, too).",
      example: "limit_rate 512k;"
    ) { $0.rate = $2.rateSize($1) },
    .line(
      "limit_rate_after", levels, .words(1...1, "SIZE"), initial: "0",
      "Bytes of a response that go before `limit_rate` applies.", example: "limit_rate_after 1m;"
    ) { $0.free = $2.rateSize($1) },
  ]

  static let variable = FeatureVariable(
    "limit_rate", "The rate in bytes per second at which the response is sent; `set` changes it.", isSettable: true
  ) { exchange, output in
    output.append(decimal: UInt64(max(0, ResponseRate.value(exchange))))
  }

  static let variables = [variable]

  static let instruction: UpstreamInstruction? = UpstreamInstruction(
    field: .xAccelLimitRate, ignored: .limitRate, obey: { ResponseRate.take($0, $1) })

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> LimitRate? {
    var limit = LimitRate(level.scope, &builder)
    // `set $limit_rate` in any location can lead here by an internal redirect.
    limit.slot = builder.variables.slots[variable.name]
    return limit.rate == nil && limit.slot == nil && limit.free == nil ? nil : limit
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let rate = ResponseRate(self)
    parts.filters.append(rate)
    parts.objects.append(rate)
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let rates = (old?.rate?.text(names.old), new?.rate?.text(names.new))
    if rates.0 == rates.1 { return }
    switch rates {
    case (let before?, nil): found.opens("the speed of a response is no longer limited (was \(before))")
    case (nil, let after?): found.closes("the speed of a response is limited to \(after)")
    case (let before, let after):
      found.other("the speed of a response is limited to \(after ?? "") (was \(before ?? ""))")
    }
  }
}

extension SettingsBuilder {
  /// A size that may have variables.
  mutating func rateSize(_ line: Directive?) -> Template? {
    guard let line else { return nil }
    let template = template(line, 0)
    if template.uses(where: { $0 == .feature(LimitRate.variable) }) {
      error(line.place(0), "\"\(line.name)\" names itself by $limit_rate", hint: "use another variable")
      return nil
    }
    if template.constant != nil, Quantity.size(line.text(0)) == nil || line.text(0).lowercased().hasSuffix("g") {
      refuse(line, 0, hint: "a size such as 50k or 2m")
      return nil
    }
    return template
  }
}
