package import Language

/// HAProxy's configuration as one of ours: each frontend is a server for each host that its rules name, and each backend a
/// group.
///
/// A frontend with a rule that can't be had is closed: it refuses everybody, and a comment says why.
package enum HAProxyConversion {
  /// The host names of the first certificate in a file; nil: it can't be read.
  package typealias CertificateNames = (String) -> [String]?

  /// `file` appears in notes.
  package static func convert(
    _ text: String, file: String, files: SourceFiles = .none, names: @escaping CertificateNames = { _ in nil }
  ) -> Converted {
    let old = HAProxyFile(text, file: file)
    var document = ConversionDocument(origin: "HAProxy's \(OldText.plain(Array(file.utf8)))")
    guard !old.isTooLarge else {
      let reason =
        "more than \(HAProxyFile.maximumSections) sections, or \(HAProxyFile.maximumDefaults) lines of defaults: divide the file"
      return document.finished(with: [ConversionNote(.refused, OldLine(file: file, number: 1, text: ""), reason)])
    }
    var faults = old.faults
    let ofAll = old.sections.filter { $0.kind == "global" }.flatMap(\.lines)
    let globals = HAProxyGlobals(ofAll, files: files, names: names)
    for line in ofAll { global(line, &document) }
    var backends: [String: HAProxyBackend] = [:]
    var number = 0
    var mustUpgrade = false
    for section in old.sections where ["backend", "listen"].contains(section.kind) {
      number += 1
      let lines = lines(section, old.sections)
      if backends[section.name] != nil {
        faults.append(ConversionNote(.refused, section.head, "there are two backends of this name"))
        continue
      }
      let backend = HAProxyBackend(
        section, lines: lines, isHTTP: isHTTP(lines), number: number, globals)
      backends[section.name] = backend
      if backend.isHTTP { document.add(http: backend.group) } else { document.add(stream: backend.group) }
    }
    for section in old.sections {
      switch section.kind {
      case "frontend", "listen":
        number += 1
        let lines = lines(section, old.sections)
        let isHTTP = isHTTP(lines)
        var frontend = HAProxyFrontend(
          section, lines: lines, isHTTP: isHTTP, number: number, backends: backends, globals)
        for block in frontend.servers() {
          if isHTTP { document.add(http: block) } else { document.add(stream: block) }
        }
        if isHTTP { mustUpgrade = true }
        document.beforeStreams += frontend.before
      case "global", "defaults", "backend": break
      default:
        faults.append(
          ConversionNote(.refused, section.head, "this section isn't carried over, and nothing here needs it"))
      }
    }
    if mustUpgrade {
      document.beforeHTTP =
        backends.values.filter(\.isHTTP).map(\.matches).sorted { $0.joined() < $1.joined() }.joined() + [
          "server_tokens off;", "map $http_upgrade $connection_upgrade {", "    default upgrade;", "    \"\" \"\";",
          "}",
        ]
    }
    return document.finished(with: faults)
  }

  /// The lines of a section behind those of its defaults.
  static func lines(_ section: HAProxyFile.Section, _ all: [HAProxyFile.Section]) -> [HAProxyLine] {
    let defaults = (section.defaults.map { all[$0].lines } ?? []).map {
      HAProxyLine(words: $0.words, line: $0.line, isDefault: true)
    }
    return defaults + section.lines
  }

  private static func isHTTP(_ lines: [HAProxyLine]) -> Bool {
    lines.last { $0.name == "mode" }?.word(1) == "http"
  }

  private static func global(_ line: HAProxyLine, _ document: inout ConversionDocument) {
    switch line.name {
    case "user": document.take(line.line, "user", line.word(1))
    case "pidfile": document.take(line.line, "pid", line.word(1))
    case "maxconn", "nbthread", "nbproc", "cpu-map", "daemon", "master-worker", "log", "log-tag", "log-send-hostname",
      "node", "description", "spread-checks", "ulimit-n", "hard-stop-after", "quiet", "crt-base", "ca-base":
      document.take(line.line, because: "without effect here, or used where it counts")
    case "group": document.change(line.line, "the group of a user is its own: user USER GROUP;")
    case "chroot": document.change(line.line, "the sandbox takes its place")
    case "stats": document.refuse(line.line, "the API is a location: api; and `sallyport ctl` asks it")
    default:
      if HAProxyGlobals.isRead(line.name) {
        document.take(line.line, because: "it stands in each server")
      } else if line.name.hasPrefix("ssl-default-") || line.name.hasPrefix("tune.") || line.name == "ssl-dh-param-file"
      {
        document.change(
          line.line,
          "our own default counts, and is as strict as a modern one: ssl_protocols and ssl_ciphers say otherwise")
      } else {
        document.refuse(line.line, "it isn't carried over")
      }
    }
  }
}
