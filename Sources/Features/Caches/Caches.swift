import Bytes
import HTTP
import Language
import Observability
import Traffic

/// nginx's caches of responses (a part of its proxy, fastcgi, scgi and uwsgi modules), of which sallyport has none. Each
/// request goes to the upstream, which decides: nobody gets a response that was made for somebody else. `slice` fills a
/// cache part by part, so it goes with them.
enum Caches: DirectiveFeature {
  static let chapter = Chapter.proxy

  static let directives: [DirectiveEntry] =
    ["proxy", "fastcgi", "scgi", "uwsgi"].flatMap { module in
      [
        .inert(
          "\(module)_cache", levels, .words(1...1, "ZONE | off"),
          because: "each request goes to the upstream; \(noCache)", remark: remark),
        .inert("\(module)_no_cache", levels, because: none),
      ] + options.map { .inert("\(module)_cache_\($0)", levels, because: none) }
    } + [
      .inert(
        "slice", DirectiveContexts.everyHTTP, .words(1...1, "SIZE"),
        because: "$slice_range is the part that the client asks for; \(noCache)")
    ]

  /// The part to ask the upstream for: what the client asks for, because nothing cuts it into slices.
  static let variables = [
    FeatureVariable("slice_range", "The Range of the request, because nothing cuts responses into slices.") {
      exchange, output in
      let head = exchange.head
      if let field = head.first(.range) { output.append(head.bytes.readable[field.value]) }
    }
  ]

  private static let levels = DirectiveContexts.everyHTTP.union(.locationIf)
  private static let none = "there is no cache that it could be about"
  private static let options = [
    "background_update", "bypass", "convert_head", "key", "lock", "lock_age", "lock_timeout", "max_range_offset",
    "methods", "min_uses", "path", "revalidate", "use_stale", "valid",
  ]

  /// Warns of a line that asks for a cache: an upstream that counts on one gets more requests than it may bear.
  @Sendable private static func remark(_ line: Directive) -> Diagnostic? {
    guard line.text(0) != "off" else { return nil }
    return Diagnostic(
      .warning, at: line.location, "\"\(line.name)\" finds no cache here: each request goes to the upstream",
      hint: "leave it out, or put a cache between sallyport and the upstream"
    ).sharing(
      .init(
        noCache, subject: "`\(line.name)`", title: "lines ask for a cache, and each request goes to the upstream",
        remedy: "leave them out, or put a cache between sallyport and the upstream"))
  }
}
