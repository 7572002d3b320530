import CGI
import Forward
import Language
import Traffic
import Upstream

/// SCGI towards upstreams (nginx: ngx_http_scgi_module).
enum SCGI: UpstreamFeature {
  static let chapter = Chapter.programs
  private static let wire = ProgramCodec.wire("SCGI")
  private static let names = PassNames(prefix: "scgi_", taken: ProgramDialect.taken)
  static let dialect = ProgramDialect.make(
    wire, names, "scgi", portForm: "scgi_pass ADDRESS:PORT or scgi_pass unix:/PATH")

  private static let passLine = ProgramDialect.pass(
    "scgi_pass", "an SCGI server", "ADDRESS:PORT | unix:PATH | GROUP", example: "scgi_pass 127.0.0.1:4000;")
  private static let parameter = ProgramDialect.parameter("scgi_param", "scgi_param PATH_INFO $uri;")
  static let directives = [passLine, parameter] + names.directives

  static func view(_ scope: Scope) -> Scope { names.view(scope) }

  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) {
    (parameter.lines(in: scope), scope.own(parameter.name))
  }

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    names.pass(line, level, dialect, &builder) { _, builder in
      [ProgramSettings(.scgi, parameter, level.scope, line, &builder)]
    }
  }
}
