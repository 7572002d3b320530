import Bytes
import Forward
import HTTP
package import Language
package import Observability
package import Traffic

private let levels = DirectiveContexts.everyHTTP

/// Files (nginx: core, index and try_files modules).
extension FileSettings: LocationFeature {
  package static let chapter = Chapter.files

  package var mayRespond: Bool { true }

  static let rootLine = DirectiveEntry.value(
    "root", levels.union(.locationIf), .words(1...1, "FOLDER"), "none (nginx: html)",
    "The folder of the files; the request's whole path follows. A relative name is relative to the main file's folder."
      + " With variables it must begin with a fixed folder, which no request leaves. A variable with constant values of"
      + " `set` or `map` begins with the folder that these have in common.", example: "root /var/www/html;",
    trust: .told)
  static let aliasLine = DirectiveEntry.value(
    "alias", .location, .words(1...1, "FOLDER/ | FILE"), "",
    "The folder of the files; the request's path follows without the location's prefix. In a location with a regular"
      + " expression, the whole path of the file, with its captures.", example: "alias /var/www/html/;")
  static let tryLine = DirectiveEntry.local(
    "try_files", [.server, .location], .words(2...Int.max, "FILE … PATH | @NAME | =CODE"),
    "Serves the first file or, with a slash at the end of its name, folder that is there; otherwise continues with the last"
      + " word. Without `root` and `alias`, it looks in the folder `html` beside the configuration file. An `alias` with a"
      + " regular expression can't be beside it.",
    example: "try_files $uri $uri/ /index.html;")

  private static let places: [Row<FileSettings>] = [
    Row(rootLine), Row(aliasLine),
    .lines(
      "index", levels, .words(1...Int.max, "FILE …"), initial: standardIndex,
      "The files that stand for a folder. A folder without one gets status 403. The last one can be a path, such as"
        + " `/index/$host.html`, with which the request goes on.", example: "index index.html index.htm;"
    ) { files, lines, builder in files.index = lines.flatMap(\.arguments).map { builder.template($0) } },
    Row(tryLine),
  ]

  private static let options: [Row<FileSettings>] =
    [
      .flag(
        "log_not_found", levels, \.logsAbsence, "Whether the error log names files that are missing.",
        example: "log_not_found off;", trust: .none),
      .flag("etag", levels, \.sendsETag, "Whether files have an ETag.", example: "etag off;"),
      .choice(
        "if_modified_since", levels, ["off": .off, "exact": .exact, "before": .before], \.comparison,
        "How the time of If-Modified-Since is compared with the file's.", example: "if_modified_since before;"),
      .number(
        "max_ranges", levels, 0...Int.max, \.maxRanges, initial: "no limit",
        "How many ranges a request may ask for; 0 ignores Range.", example: "max_ranges 1;"),
      .inert("disable_symlinks", levels, because: "below `root` and `alias`, no symbolic link is ever followed"),
      .inert("sendfile", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("sendfile_max_chunk", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("aio", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("aio_write", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("directio", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("directio_alignment", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("output_buffers", levels, because: "a slice of a file has at most 256 KiB"),
      .inert("read_ahead", levels, because: "a thread beside the event loops reads files in slices"),
      .inert("open_file_cache", levels, because: "files are opened anew for each request"),
      .inert("open_file_cache_events", levels, because: "files are opened anew for each request"),
      .inert("open_file_cache_errors", levels, because: "files are opened anew for each request"),
      .inert("open_file_cache_min_uses", levels, because: "files are opened anew for each request"),
      .inert("open_file_cache_valid", levels, because: "files are opened anew for each request"),
      .inert("types_hash_max_size", levels, because: "the tables grow as needed"),
      .inert("types_hash_bucket_size", levels, because: "the tables grow as needed"),
      // nginx takes no argument, and both in a location alone.
      .inert("mp4", .location, .words(0...0, ""), because: wholeFiles, remark: remarkOnStart),
      .inert("flv", .location, .words(0...0, ""), because: wholeFiles, remark: remarkOnStart),
    ]
    + ["mp4_buffer_size", "mp4_max_buffer_size", "mp4_limit_rate", "mp4_limit_rate_after", "mp4_start_key_frame"].map {
      .inert($0, levels, because: wholeFiles)
    }

  private static let wholeFiles = "players ask for parts of a file by Range, and the file is sent as it is"

  /// A player that names a time in the query gets the beginning of the file.
  @Sendable private static func remarkOnStart(_ line: Directive) -> Diagnostic? {
    Diagnostic(
      .warning, at: line.location,
      "\"\(line.name)\" is without effect: whatever ?start= says, a file is sent from its beginning",
      hint: "leave it out if players ask by Range, as browsers do; else proxy_pass to a server that has it")
  }

  static let rows = places + options
  package static let directives = places.entries + ContentTypes.rows.entries + options.entries

  static let documentRoot = FeatureVariable("document_root", "The value of `root` or `alias` for the request.") {
    $0.location.files?.appendRoot($0, to: &$1)
  }
  static let requestFilename = FeatureVariable("request_filename", "The path of the file that the request names.") {
    $0.location.files?.appendFile($0, to: &$1)
  }

  package static let variables = [
    documentRoot, requestFilename,
    FeatureVariable("realpath_root", "The folder of `$document_root`, without symbolic links.") {
      $0.location.files?.appendRealRoot($0, to: &$1)
    },
  ]

  package var namedTargets: [(name: String, act: Wording, place: SourceLocation)] {
    guard let tryFiles, case .named(let name) = tryFiles.fallback else { return [] }
    return [(name, "`try_files` ends in", tryFiles.location)]
  }

  package static func requiredFiles(_ scope: Scope) -> [String] {
    tryLine.lines(in: scope).flatMap { $0.arguments.dropLast().map(\.text) }
  }

  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    ServedFolderRule.judge(level, &builder)
  }

  package var ways: LocationWays {
    var leads: [RequestLead] = []
    if let tryFiles = self.tryFiles {
      switch tryFiles.fallback {
      case .path(let path):
        leads.append(RequestLead(.content, to: .path(path), "try_files … \(path.asWritten)", at: tryFiles.location))
      case .named(let name):
        leads.append(RequestLead(.content, to: .named(name), "try_files … @\(name)", at: tryFiles.location))
      case .status: break
      }
    }
    for name in index where name.beginsWithSlash {
      leads.append(RequestLead(.content, to: .path(name), "index \(name.asWritten)"))
    }
    var ways = LocationWays(leads: leads)
    ways.files = "files of \(String(decoding: root.folder, as: UTF8.self))\(root.rest.asWritten)"
    return ways
  }

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    let hooks = FileHooks()
    parts.objects.append(hooks)
    parts.objects.append(LiveFiles(self, hooks, real: makers.generation[RealFolders.self].folders[root.folder]))
    parts.fallback = FileContent()
    if let tryFiles = self.tryFiles { parts.steps.precontent.append(TryFilesStep(tryFiles)) }
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    func folder(_ settings: Self?, _ names: [Int: String]) -> Set<String> {
      guard let root = settings?.root else { return [] }
      return [String(decoding: root.folder, as: UTF8.self) + root.rest.text(names)]
    }
    found.set(folder(old, names.old), folder(new, names.new)) {
      "serves files of \($0)"
    } removed: {
      "no longer serves files of \($0)"
    }
  }
}
