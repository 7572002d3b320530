import Bytes
import CGI
import Forward
import HTTP
import Language
import Observability
import Patterns
import Traffic
import Upstream

private let levels = DirectiveContexts.everyHTTP

/// FastCGI towards upstreams (nginx: ngx_http_fastcgi_module). A `fastcgi_pass` is a `proxy_pass` in another dialect, whose
/// requests are parameters.
struct FastCGI: FeatureSettings, LocationFeature, UpstreamFeature {
  /// `fastcgi_index`: what follows the name of a script that ends with a slash.
  var index: String?
  /// `fastcgi_split_path_info`: the parts of a path that are the script's name and what follows it; nil: the path is a name.
  var split: RegularExpression?
  /// `fastcgi_keep_conn`
  var keepsConnections = false
  /// `fastcgi_catch_stderr`: a response whose server says one of these is invalid.
  var caught: [String] = []

  var isInEffect: Bool { index != nil || split != nil }

  // MARK: Directives

  static let chapter = Chapter.programs
  private static let names = PassNames(prefix: "fastcgi_", taken: ProgramDialect.taken)
  static let dialect = ProgramDialect.make(
    wire(keepsConnection: false), names, "fastcgi", portForm: "fastcgi_pass ADDRESS:PORT or fastcgi_pass unix:/PATH")

  private static let passLine = ProgramDialect.pass(
    "fastcgi_pass", "a FastCGI server such as php-fpm", "ADDRESS:PORT | unix:PATH | GROUP",
    example: "fastcgi_pass unix:/run/php/php-fpm.sock;")
  private static let parameter = ProgramDialect.parameter(
    "fastcgi_param", "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;")
  private static let splitLine = Row<FastCGI>.line(
    "fastcgi_split_path_info", levels, .words(1...1, "REGEX"),
    "A regular expression with two captures: of a path that it matches, the first one is `$fastcgi_script_name`, and the second one is `$fastcgi_path_info`.",
    example: "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;"
  ) { $0.split = $1.arguments.first.flatMap($2.variables.pattern) }

  static let rows: [Row<FastCGI>] = [
    Row(passLine), Row(parameter),
    .text(
      "fastcgi_index", levels, "NAME", \.index,
      "The name of the script that `$fastcgi_script_name` has for a path with a slash at its end.",
      example: "fastcgi_index index.php;"),
    splitLine,
    .flag(
      "fastcgi_keep_conn", levels, \.keepsConnections,
      "Whether the server is asked to leave a connection open after the response, for later requests. A group needs `keepalive` too.",
      example: "fastcgi_keep_conn on;", trust: .none),
    .words(
      "fastcgi_catch_stderr", levels, usage: "TEXT",
      "A text that makes a response invalid if the server writes it to its standard error before the response begins. See `fastcgi_next_upstream invalid_header`.",
      example: "fastcgi_catch_stderr \"PHP Fatal error\";", trust: .none
    ) { settings, word, _ in settings.caught.append(word.text) },
    .inert("fastcgi_send_lowat", levels, because: "it has no meaning on Linux"),
  ]
  static let directives = rows.entries + names.directives

  static let definitions: [String: Definition] = [
    splitLine.name: { line, defined in
      guard let word = line.arguments.first else { return }
      defined.compileUnnamed(word.text, at: word, caseless: false, what: line.name)
      guard let pattern = defined.pattern(at: word), pattern.captureCount != 2 else { return }
      defined.report(
        word, "pattern \"\(word.text)\" must have 2 captures",
        hint: "the first one is the script's name, the second one what follows: ^(.+?\\.php)(/.*)$")
    }
  ]

  static let variables = [
    FeatureVariable(
      "fastcgi_script_name",
      "The name of the script: the path of the request, or the first part of `fastcgi_split_path_info`."
    ) { exchange, output in
      guard let script = exchange.location.object(LiveScript.self) else {
        return output.append(exchange.target.uri.readable)
      }
      script.appendName(exchange, to: &output)
    },
    FeatureVariable(
      "fastcgi_path_info", "What follows the script's name: the second part of `fastcgi_split_path_info`."
    ) { exchange, output in
      exchange.location.object(LiveScript.self)?.appendPathInfo(exchange, to: &output)
    },
  ]

  static func view(_ scope: Scope) -> Scope { names.view(scope) }

  static func tellingLines(_ scope: Scope) -> (inEffect: [Directive], own: [Directive]) {
    (parameter.lines(in: scope), scope.own(parameter.name))
  }

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    names.pass(line, level, dialect, &builder) { dialect, builder in
      let settings: FastCGI = rows.read(level.scope, &builder)
      dialect.version = .wire(wire(keepsConnection: settings.keepsConnections))
      let kind = ProgramProtocol.fastCGI(keepsConnection: settings.keepsConnections)
      let program = ProgramSettings(kind, parameter, level.scope, line, &builder)
      return settings.caught.isEmpty ? [program] : [program, CaughtErrors(settings.caught)]
    }
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    guard let line = passLine.ownLine(in: level.scope) else { return }
    let script = parameter.lines(in: level.scope).last { $0.text(0) == "SCRIPT_FILENAME" }
    if let script, ScriptRule.mayBeAnyFile(script, level, builder.features) {
      builder.warning(
        line.location,
        "a path such as /photo.jpg/x.php may run /photo.jpg as a script: nothing here requires the script's file to be there",
        hint:
          "try_files $fastcgi_script_name =404; if the files are on another machine, set cgi.fix_pathinfo=0 and security.limit_extensions in PHP"
      )
    }
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.objects.append(LiveScript(self)) }
}

/// How a location finds the name of a script in a path, in one worker.
final class LiveScript {
  private let index: [UInt8]
  private let split: RegularExpression?
  private var captures = Captures()

  init(_ settings: FastCGI) {
    index = Array((settings.index ?? "").utf8)
    split = settings.split
  }

  /// `$fastcgi_script_name`
  func appendName(_ exchange: Exchange, to output: inout ByteBuffer) {
    guard let name = parts(exchange)?.name else { return }
    let path = exchange.target.uri.readable[name]
    output.append(path)
    if path.last == 0x2F { output.append(index) }
  }

  /// `$fastcgi_path_info`
  func appendPathInfo(_ exchange: Exchange, to output: inout ByteBuffer) {
    if let info = parts(exchange)?.info { output.append(exchange.target.uri.readable[info]) }
  }

  /// The ranges of the path; nil if the expression has reached its limit, and the request fails.
  private func parts(_ exchange: Exchange) -> (name: ByteRange, info: ByteRange)? {
    let path = exchange.target.uri.readable
    let whole = (name: ByteRange(start: 0, count: path.count), info: ByteRange(start: 0, count: 0))
    guard let split else { return whole }
    switch split.match(path, scratch: exchange.worker.patternScratch, into: &captures) {
    case .match: return (captures[1] ?? whole.info, captures[2] ?? whole.info)
    case .noMatch: return whole
    case .limit:
      exchange.log(.error, "\"\(split.pattern)\" reached its limit, so the name of the script isn't known")
      exchange.setBroken(true)
      return nil
    }
  }
}
