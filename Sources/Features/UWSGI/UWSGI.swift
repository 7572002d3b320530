import CGI
import Forward
import Language
import Traffic
import Upstream

private let levels = DirectiveContexts.everyHTTP

/// uwsgi towards upstreams, in clear and over TLS (nginx: ngx_http_uwsgi_module).
enum UWSGI: UpstreamFeature {
  /// What the header of each packet says.
  private struct Modifiers: RowSettings {
    var first = 0
    var second = 0
  }

  static let chapter = Chapter.programs
  private static let wire = ProgramCodec.wire("uwsgi")
  private static let names = PassNames(prefix: "uwsgi_", taken: ProgramDialect.taken, takesTLS: true)
  static let dialect: PassDialect = {
    var dialect = ProgramDialect.make(
      wire, names, "uwsgi", portForm: "uwsgi_pass [suwsgi://]ADDRESS:PORT or uwsgi_pass unix:/PATH")
    dialect.schemes.insert(("suwsgi", .https), at: 0)
    return dialect
  }()

  private static let passLine = ProgramDialect.pass(
    "uwsgi_pass", "a uwsgi server; `suwsgi://` means TLS, for which the location needs trust settings",
    "[uwsgi:// | suwsgi://]ADDRESS:PORT | unix:PATH | GROUP", example: "uwsgi_pass unix:/run/uwsgi/app/socket;")
  private static let parameter = ProgramDialect.parameter("uwsgi_param", "uwsgi_param SCRIPT_NAME $request_uri;")
  private static let modifiers: [Row<Modifiers>] = [
    .number(
      "uwsgi_modifier1", levels, 0...255, \.first,
      "The first modifier of packets, which tells the server what kind of program is asked for.",
      example: "uwsgi_modifier1 5;"),
    .number(
      "uwsgi_modifier2", levels, 0...255, \.second, "The second modifier of packets.", example: "uwsgi_modifier2 1;"),
  ]
  static let directives = [passLine, parameter] + modifiers.entries + names.directives

  static func view(_ scope: Scope) -> Scope { names.view(scope) }

  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) {
    (parameter.lines(in: scope), scope.own(parameter.name))
  }

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    names.pass(line, level, dialect, &builder) { _, builder in
      let both: Modifiers = modifiers.read(level.scope, &builder)
      let kind = ProgramProtocol.uwsgi(
        modifier1: UInt8(truncatingIfNeeded: both.first), modifier2: UInt8(truncatingIfNeeded: both.second))
      return [ProgramSettings(kind, parameter, level.scope, line, &builder)]
    }
  }
}
