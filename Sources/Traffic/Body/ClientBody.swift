package import Language
public import Observability

/// Bodies of requests (nginx: ngx_http_core_module): how large they may be, how slowly they may come, and where they wait.
package enum ClientBody: DirectiveFeature {
  package static let chapter = Chapter.http
  private static let levels = DirectiveContexts.everyHTTP

  /// Inner levels take the outer value, although the manual says nothing of it.
  private static let minRate = DirectiveEntry.local(
    "client_body_min_rate", levels, .size, "100",
    "The bytes a second that a client must send of a body that sallyport collects before it passes it on"
      + " (`proxy_request_buffering on`). They count from `client_body_timeout` after sallyport began to read the"
      + " body on. A slower client gets 408. 0: no limit, as in nginx.", example: "client_body_min_rate 500;",
    trust: .none)
  private static let maxSize = Row<LocationLimits>.size(
    "client_max_body_size", levels, \.maxBodySize, "The maximum size of a body; 0 means no limit.",
    example: "client_max_body_size 20m;", trust: .told)
  private static let filing = DirectiveEntry.value(
    "client_body_in_file_only", levels, .oneOf(["on", "clean", "off"]), "off",
    "Writes each body that is read whole to a file, whose name is `$request_body_file`; `clean` removes the file when the request ends, `on` leaves it.",
    example: "client_body_in_file_only clean;")
  private static let folder = DirectiveEntry.value(
    "client_body_temp_path", levels, .words(1...4, "FOLDER [LEVEL …]"), "$TMPDIR, or /tmp",
    "The folder for bodies in files. A start makes it if it is missing, for the user that serves, who must be able to write to it. Levels are accepted and have no effect.",
    example: "client_body_temp_path /var/lib/sallyport/bodies;")

  package static let directives = rows.entries
  private static let rows: [Row<LocationLimits>] = [
    .milliseconds(
      "client_body_timeout", levels, \.bodyTimeout, "The time limit between two reads of a body.",
      example: "client_body_timeout 30s;", trust: .none),
    Row(minRate), maxSize,
    .size(
      "client_body_buffer_size", levels, \.bodyBufferSize, initial: "up to 1m (nginx: 16k)",
      "How much of a buffered body stays in memory; a larger body goes to an unnamed file.",
      example: "client_body_buffer_size 128k;", trust: .none),
    Row(filing), Row(folder),
    .inert(
      "client_body_early_read", levels, .flag,
      because: "`proxy_request_buffering` says whether a body is read before the upstream gets the request"),
  ]

  /// The largest size of a body; 0: no limit.
  package static func sizeLimit(_ scope: Scope) -> Int { scope.size(maxSize.name) ?? 1 << 20 }

  /// The line that has each body go to a file with a name; nil: none does.
  package static func filingLine(_ scope: Scope) -> Directive? {
    filing.line(in: scope).flatMap { $0.text(0).lowercased() == "off" ? nil : $0 }
  }

  package static func read(_ scope: Scope, into limits: inout LocationLimits, _ builder: inout SettingsBuilder) {
    rows.read(scope, into: &limits, &builder)
    limits.bodyMinRate = scope.size(minRate.name) ?? limits.bodyMinRate
  }

  /// `client_body_in_file_only` and `client_body_temp_path`; nil without both.
  package static func files(_ scope: Scope, _ builder: inout SettingsBuilder) -> BodyFileSettings? {
    var files = BodyFileSettings()
    switch filing.text(in: scope)?.lowercased() {
    case "on": files.use = .kept
    case "clean": files.use = .removed
    default: break
    }
    if let line = folder.line(in: scope) {
      if line.text(0).isEmpty || line.text(0).utf8.contains(0) {
        builder.error(line.place(0), "invalid path \"\(line.text(0))\" in \"\(line.name)\" directive", hint: "a folder")
      }
      for word in line.arguments.dropFirst() where !["1", "2", "3"].contains(word.text) {
        builder.error(word.location, "invalid path level \"\(word.text)\"", hint: "1, 2 or 3; levels have no effect")
      }
      var path = resolve(line.text(0), in: builder.folder)
      while path.hasSuffix("/"), path != "/" { path.removeLast() }
      files.folder = BodyFolderSettings(path: path, location: line.location)
    }
    return files == BodyFileSettings() ? nil : files
  }
}

/// Where the request bodies of a location go that don't stay in memory.
public struct BodyFileSettings: Sendable, Hashable {
  /// `client_body_in_file_only`
  public enum Use: Sendable, Hashable {
    /// A body too large for memory goes to a file without a name.
    case unnamed
    /// Each body goes to a file with a name, which is removed when the exchange ends.
    case removed
    /// The same, and nobody but the operator removes the file.
    case kept
  }
  public var use = Use.unnamed
  /// `client_body_temp_path`; nil: $TMPDIR, or /tmp.
  public var folder: BodyFolderSettings?
  public init() {}

  /// Whether every body that is read whole goes to a file.
  package var isForEachBody: Bool { use != .unnamed }
}

/// `client_body_temp_path`, and the place of its line.
public struct BodyFolderSettings: Sendable, Hashable {
  public let path: String
  @NotCompared public private(set) var location: SourceLocation
}
