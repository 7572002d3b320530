import Crypto
import Identity
import Observability
import Proxy
import Upstream

/// Sound directives to settings. Every fault is noted and building goes on with a default, so that all are found.
struct SettingsBuilder {
  /// Of the main file.
  let folder: String
  var diagnostics: [Diagnostic] = []
  var variables = DefinedVariables()
  var formats: [String: LogFormat] = [:]
  var groups: [UpstreamGroupSettings] = []
  /// Indices into `groups`: `upstream` blocks by lower-case name, addresses by name and port.
  var namedGroups: [String: Int] = [:]
  var addressGroups: [String: Int] = [:]
  var servers: [ServerSettings] = []
  var listeners = ListenerTable()
  /// By the places of their lines: whoever inherits the same lines has the same object.
  var clientRules: [[SourceLocation]: ClientRules?] = [:]

  init(folder: String) { self.folder = folder }

  mutating func build(_ directives: [Directive]) -> Settings? {
    let scope = Scope(directives, outer: nil)
    let main = mainSettings(scope)
    guard let http = scope.own("http").first, let block = http.block else {
      diagnostics.append(
        Diagnostic(.error, at: nil, "no \"http\" block: sallyport has nothing to serve", hint: "http { server { … } }"))
      return nil
    }
    return Settings(main: main, http: httpSettings(block, at: http.location, outer: scope), folder: folder)
  }

  // MARK: What every part uses

  mutating func error(_ place: SourceLocation?, _ message: String, hint: String? = nil) {
    diagnostics.append(Diagnostic(.error, at: place, message, hint: hint))
  }

  mutating func warning(_ place: SourceLocation?, _ message: String, hint: String? = nil) {
    diagnostics.append(Diagnostic(.warning, at: place, message, hint: hint))
  }

  mutating func template(_ word: Word) -> Template {
    do {
      return try TemplateCompiler(slots: variables.slots).compile(word)
    } catch {
      diagnostics.append(error.diagnostic)
      return Template([])
    }
  }

  mutating func template(_ directive: Directive, _ index: Int) -> Template {
    index < directive.arguments.count ? template(directive.arguments[index]) : Template([])
  }

  /// A file or credential that a directive names first.
  mutating func material(_ directive: Directive?) -> MaterialReference? {
    directive.flatMap { directive in directive.arguments.first.flatMap { material(directive, $0) } }
  }

  /// All that a directive names.
  mutating func materials(_ directive: Directive) -> [MaterialReference] {
    directive.arguments.compactMap { material(directive, $0) }
  }

  private mutating func material(_ directive: Directive, _ word: Word) -> MaterialReference? {
    if word.text.contains("$") {
      error(word.location, "variables in \"\(directive.name)\" are not supported yet", hint: "name a file")
      return nil
    }
    do {
      return try MaterialReference(
        parsing: word.text, relativeTo: folder, location: word.location,
        isKey: directive.name.hasSuffix("certificate_key"))
    } catch {
      diagnostics.append(error.diagnostic)
      return nil
    }
  }

  /// A count times a size, within what a machine has.
  mutating func buffers(_ directive: Directive?) -> (count: Int, size: Int)? {
    guard let directive, let count = Quantity.number(directive.text(0)), let size = Quantity.size(directive.text(1))
    else { return nil }
    let (total, overflow) = count.multipliedReportingOverflow(by: size)
    guard !overflow, total <= 1 << 30 else {
      error(directive.location, "\"\(directive.name)\" asks for more than 1g in all", hint: "fewer or smaller buffers")
      return nil
    }
    return (count, size)
  }
}
