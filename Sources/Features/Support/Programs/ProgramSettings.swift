import CGI
import Forward
import Language
import Observability
import Traffic

/// What a location tells a server of programs: one of FastCGI, SCGI or uwsgi.
struct ProgramSettings: PassPart {
  let kind: ProgramProtocol
  let parameters: [PassParameter]

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    for parameter in parameters {
      if let name = parameter.fieldName { parts.replace(name) }
    }
    parts.requestHooks.append(ProgramRequest(self, parts.pass))
  }

  var toldFields: [(name: [UInt8], value: Template)] {
    parameters.compactMap { parameter in parameter.fieldName.map { ($0, parameter.value) } }
  }

  func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    var lines: [PassPolicyLine] = []
    if let script = parameters.last(where: { $0.name == Array("SCRIPT_FILENAME".utf8) }) {
      lines.append(PassPolicyLine("runs", script.value.asWritten))
    }
    let told = parameters.filter(\.saysClient).map { String(decoding: $0.name, as: UTF8.self) }
    if !told.isEmpty {
      lines.append(PassPolicyLine("client parameters", told.joined(separator: ", ")))
    }
    return lines
  }

  /// Reads the parameters in effect at a level: the lines of a row, and what other directives set. `pass`: the line that
  /// names the server.
  init(
    _ kind: ProgramProtocol, _ row: DirectiveEntry, _ scope: Scope, _ pass: Directive, _ builder: inout SettingsBuilder
  ) {
    self.kind = kind
    let lines = row.lines(in: scope)
    let own = builder.features.ofPass(.http).flatMap { $0.parameters(scope) }
    var parameters: [PassParameter] = []
    for line in lines {
      guard let parameter = Self.parameter(line, &builder) else { continue }
      if own.contains(where: { $0.name == parameter.name }) {
        builder.error(
          line.place(0), "the parameter \"\(line.text(0))\" is set here and by another directive",
          hint: "remove one of the two; \(pass.name) is at \(pass.location)")
      }
      parameters.append(parameter)
    }
    if lines.isEmpty {
      builder.warning(
        pass.location, "\"\(pass.name)\" without \"\(row.name)\": the server isn't told which program to run",
        hint: "include \(row.name)s; and what the program needs")
    }
    self.parameters = parameters + own
  }

  private static func parameter(_ line: Directive, _ builder: inout SettingsBuilder) -> PassParameter? {
    let name = Array(line.text(0).utf8)
    guard !name.isEmpty, name.allSatisfy({ $0 > 0x20 && $0 != 0x3D && $0 != 0x7F && $0 != 0x24 }) else {
      builder.error(
        line.place(0), "invalid name \"\(line.text(0))\" of a parameter",
        hint: "a name such as SCRIPT_FILENAME: without blanks, \"=\" and variables")
      return nil
    }
    if let word = line.arguments.dropFirst(2).first, word.text != "if_not_empty" {
      builder.refuse(word, hint: "\(line.name) NAME VALUE [if_not_empty]")
    }
    if line.text(1).utf8.contains(0) {
      builder.error(
        line.place(1), "a NUL byte in the value of \"\(line.text(0))\"", hint: "it would end the value in the program")
    }
    return PassParameter(
      name: name, value: builder.template(line, 1), isLeftOutIfEmpty: line.arguments.count > 2)
  }
}

extension PassParameter {
  /// Whether the value says who the client is.
  fileprivate var saysClient: Bool {
    value.uses {
      switch $0 {
      case .feature(let variable): variable.saysClient
      case .simple(.remote_user): true
      case .simple(let variable): variable.rawValue.hasPrefix("ssl_client_")
      default: false
      }
    }
  }
}

/// What a change of parameters means, for `check --diff`. It has no directives of its own.
enum ProgramParameters: PassFeature {
  static let chapter = Chapter.programs
  static let directives: [DirectiveEntry] = []

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    func values(_ pass: UpstreamPass) -> [String: String] {
      Dictionary(
        (pass[ProgramSettings.self]?.parameters ?? []).map {
          (String(decoding: $0.name, as: UTF8.self), $0.value.asWritten)
        }, uniquingKeysWith: { $0 + ", " + $1 })
    }
    guard let before = old[ProgramSettings.self], let after = new[ProgramSettings.self] else { return }
    let (one, other) = (values(old), values(new))
    for name in Set(one.keys).union(other.keys).sorted() where one[name] != other[name] {
      let isField = PassParameter(name: Array(name.utf8), value: Template([])).fieldName != nil
      let told = (before.parameters + after.parameters).contains { $0.name == Array(name.utf8) && $0.saysClient }
      switch (one[name], other[name]) {
      case (let value?, nil) where isField:
        found.opens(
          "the parameter \(name) is no longer set (was \"\(value)\"): a client's own field goes to the upstream")
      case (let value?, nil) where told:
        found.opens("the parameter \(name) no longer tells the upstream who the client is (was \"\(value)\")")
      case (let value?, nil): found.other("the parameter \(name) is no longer set (was \"\(value)\")")
      case (nil, let value?) where isField || told: found.closes("the parameter \(name) is set to \"\(value)\"")
      case (nil, let value?): found.other("the parameter \(name) is set to \"\(value)\"")
      case (let value?, let next?): found.other("the parameter \(name) is \"\(next)\" (was \"\(value)\")")
      case (nil, nil): break
      }
    }
  }
}
