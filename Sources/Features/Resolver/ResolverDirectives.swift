import Language

/// How names are resolved while requests are served (nginx: core module).
enum NameResolution: PassFeature {
  static let chapter = Chapter.resolver
  static let kinds: Set<TrafficKind> = [.http, .stream]

  /// A wrong line is an error also where no upstream needs it.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) { _ = builder.nameResolution(level.scope) }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    draft.target.nameResolution = builder.nameResolution(draft.scope)
  }

  static let directives: [DirectiveEntry] = [
    .value(
      "resolver", .everyHTTP.union(.upstream).union(.everyStream).union(.streamUpstream),
      .words(1...Int.max, "ADDRESS[:PORT] … [valid=TIME] [ipv4=on|off] [ipv6=on|off]"), "the system's resolver",
      "The DNS servers that resolve the name in a `proxy_pass` with variables, and of `server … resolve`. An answer counts for its TTL, at least a"
        + " second and at most a day, or for the time of `valid`. Without `resolver`, sallyport asks the system (nginx:"
        + " an error), and keeps the answer for 30 seconds.", example: "resolver 127.0.0.1 valid=30s;"),
    .value(
      "resolver_timeout", .everyHTTP.union(.upstream).union(.everyStream).union(.streamUpstream), .milliseconds, "30s",
      "How long a request waits for `resolver`; afterwards, the response is 502.", example: "resolver_timeout 5s;"),
  ]
}
