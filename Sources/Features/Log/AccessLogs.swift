import Forward
import Language
package import Observability
package import Traffic

/// access_log and log_format (nginx: ngx_http_log_module): where and how requests are logged.
///
/// The folder is the whole feature: the directives here, a line and its format in `LogLine`, and when it is written in
/// `AccessLogStep`.
struct AccessLogs: LocationFeature {
  var lines: [AccessLogSettings]

  // MARK: Directives

  static let chapter = Chapter.http
  static let kinds: Set<TrafficKind> = [.http, .stream]
  private static let levels = DirectiveContexts.everyHTTP

  private static let logs = DirectiveEntry.list(
    "access_log", levels.union([.locationIf, .limitExcept]).union(.everyStream),
    .words(
      1...Int.max,
      "FILE | stderr | syslog:… | journal [FORMAT] [buffer=SIZE [flush=TIME]] [gzip[=LEVEL]] [if=CONDITION] | off"),
    "off (nginx: logs/access.log combined)",
    "Where sallyport logs requests. FILE can have variables after a fixed folder, which must exist (`/var/log/sites/$server_name.log`). A value with a slash or a control character, and a name that leaves the folder, gets no line there but one in the error log. No symbolic link below the folder is followed, and `buffer=` isn't allowed. With `gzip`, each full buffer (64k) is compressed and appended: `zcat` reads the file.",
    example: "access_log /var/log/sallyport/access.log combined;", trust: .none)

  private static let cache = DirectiveEntry.value(
    "open_log_file_cache", levels.union(.everyStream),
    .words(1...4, "off | max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]"),
    "max=64 inactive=10s valid=0 (nginx: off)",
    "How many files of an `access_log` with variables stay open, how long without a line, after how many writes, and how long until sallyport looks whether the name still leads to the file. Other logs stay open.",
    example: "open_log_file_cache max=100 inactive=20s valid=1m;", trust: .none)

  private static let format = DirectiveEntry.local(
    "log_format", [.http, .stream], .words(2...Int.max, "NAME [escape=default|json|none] TEXT …"), "combined, json",
    "The format of a line in an access log.", repeatable: true,
    example: "log_format f '$remote_addr $status $bytes_sent';", trust: .none)

  static let directives = [logs, cache, format]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) { collectFormats(http, &builder) }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AccessLogs? {
    let lines = accessLogs(level.scope, &builder)
    return lines.isEmpty ? nil : AccessLogs(lines: lines)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.logSteps.append(AccessLogStep(lines.compactMap(makers[LiveAccessLogs.self].log)))
  }

  fileprivate static func collectFormats(_ scope: Scope, _ builder: inout SettingsBuilder) {
    // As in nginx, `stream` has no format that needn't be defined.
    if builder.kind == .http {
      let text = builder.template(Word(LogFormat.combined, at: .nowhere))
      builder[LogLines.self].formats["combined"] = LogFormat(escape: .default, text: text)
    }
    for line in format.lines(in: scope) {
      let name = line.text(0)
      guard builder[LogLines.self].formats[name] == nil else {
        builder.error(line.place(0), "duplicate \"log_format\" name \"\(name)\"", hint: "use another name")
        continue
      }
      var escape = LogEscaping.default
      var words = line.arguments.dropFirst()
      if let first = words.first, first.text.hasPrefix("escape=") {
        words = words.dropFirst()
        guard let named = LogEscaping(rawValue: String(first.text.dropFirst("escape=".count))) else {
          builder.error(
            first.location, "unknown log format escaping \"\(first.text)\"", hint: "escape=default, json or none")
          continue
        }
        escape = named
      }
      let text = Template(words.flatMap { builder.template($0).parts })
      builder[LogLines.self].formats[name] = LogFormat(escape: escape, text: text)
    }
    // Many files for nginx define a format of this name; theirs takes precedence.
    if builder[LogLines.self].formats["json"] == nil, builder.kind == .http {
      builder[LogLines.self].formats["json"] = ownJSON(&builder)
      builder[LogLines.self].hasOwnJSON = true
    }
  }

  /// Its members mean the same in each configuration, also where one defines a variable of such a name.
  private static func ownJSON(_ builder: inout SettingsBuilder) -> LogFormat {
    LogFormat(escape: .json, text: builder.ownTemplate(LogFormat.json(builder[LoggedMembers.self])))
  }

  /// Builds the access logs. Without `access_log`, there is no access log: no folder for logs exists on every system.
  fileprivate static func accessLogs(_ scope: Scope, _ builder: inout SettingsBuilder) -> [AccessLogSettings] {
    let lines = logs.lines(in: scope)
    if !lines.isEmpty, builder[LogLines.self].hasOwnJSON {
      // By now, all features have read the lines that add members.
      builder[LogLines.self].formats["json"] = ownJSON(&builder)
      builder[LogLines.self].hasOwnJSON = false
    }
    if lines.contains(where: { $0.text(0) == "off" }) { return [] }
    let cache = openLogCache(scope, &builder)
    return lines.compactMap { accessLog($0, cache, &builder) }
  }

  /// `cache`: `open_log_file_cache`.
  private static func accessLog(
    _ line: Directive, _ cache: OpenLogCache, _ builder: inout SettingsBuilder
  ) -> AccessLogSettings? {
    let formats = builder[LogLines.self].formats
    var format: LogFormat?
    var condition: Template?
    var buffer: Int?
    var flush: (milliseconds: Int, word: Word)?
    var gzipLevel: Int?
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("if=") {
        condition = builder.template(Word(String(word.text.dropFirst(3)), at: word.location))
      } else if word.text.hasPrefix("buffer=") {
        buffer = bufferSize(word, &builder)
        if buffer == nil { return nil }
      } else if word.text.hasPrefix("flush=") {
        guard let time = flushTime(word, &builder) else { return nil }
        flush = (time, word)
      } else if word.text == "gzip" || word.text.hasPrefix("gzip=") {
        gzipLevel = word.text == "gzip" ? 1 : Quantity.number(String(word.text.dropFirst("gzip=".count)))
        guard let level = gzipLevel, (1...9).contains(level) else {
          builder.error(word.location, "invalid compression level \"\(word.text)\"", hint: "gzip, or gzip=1 to gzip=9")
          return nil
        }
      } else if let named = formats[word.text] {
        format = named
      } else {
        let nearest = Spelling.nearest(to: word.text, among: formats.keys.sorted())
        builder.error(
          word.location, "unknown log format \"\(word.text)\"",
          hint: nearest.map { "did you mean \"\($0)\"?" } ?? "define it: log_format \(word.text) '…';")
        // What is wrong with the destination is told too.
        if !line.text(0).contains("$") { _ = ErrorLogs.destination(line, &builder) }
        return nil
      }
    }
    if gzipLevel != nil { buffer = buffer ?? Self.compressedBuffer }
    if let flush, buffer == nil {
      builder.error(
        flush.word.location, "\"\(flush.word.text)\" without a buffer",
        hint: "write \"buffer=64k \(flush.word.text)\"; without both, sallyport writes after one second at the latest")
      return nil
    }
    guard let format = format ?? formats["combined"] else {
      builder.error(
        line.location, "log format is not specified",
        hint: "log_format NAME '$remote_addr $status $session_time'; and access_log \(line.text(0)) NAME;")
      return nil
    }
    if line.text(0).contains("$") {
      guard buffer == nil else {
        builder.error(
          line.place(0), "buffered logs cannot have variables in name",
          hint: "remove buffer=, flush= and gzip: lines are collected for at most one second anyway")
        return nil
      }
      return namedLog(line, cache, &builder).map { folder, name in
        AccessLogSettings(
          destination: .folder(folder), name: name, format: format.text, escape: format.escape, condition: condition,
          location: line.place(0))
      }
    }
    guard let destination = ErrorLogs.destination(line, &builder) else { return nil }
    let buffering = buffer.map { LogBuffering(capacity: $0, flush: flush?.milliseconds, gzipLevel: gzipLevel) }
    if let buffering, !admits(buffering, of: destination, line, &builder) { return nil }
    return AccessLogSettings(
      destination: .fixed(destination), format: format.text, escape: format.escape, condition: condition,
      buffering: buffering, location: line.place(0))
  }

  /// An `access_log` with variables: its folder, and the name of the file below it.
  private static func namedLog(
    _ line: Directive, _ cache: OpenLogCache, _ builder: inout SettingsBuilder
  ) -> (LogFolderSettings, name: Template)? {
    guard let word = line.arguments.first else { return nil }
    let (count, template) = (builder.diagnostics.count, builder.template(word))
    guard builder.diagnostics.count == count else { return nil }
    var parts = template.parts
    guard case .literal(let bytes)? = parts.first, let slash = bytes.lastIndex(of: 0x2F), slash > 0,
      !word.text.hasPrefix("syslog:")
    else {
      builder.error(
        word.location, "\"\(word.text)\" has no folder before its first variable",
        hint: "begin with a fixed folder that isn't /, such as /var/log/sallyport/$host.log: no request leaves it")
      return nil
    }
    let folder = String(decoding: bytes[...slash], as: UTF8.self)
    let rest = Array(bytes[(slash + 1)...])
    parts[0] = .literal(rest)
    if rest.isEmpty { parts.removeFirst() }
    let path = word.text.hasPrefix("/") || builder.folder.isEmpty ? folder : "\(builder.folder)/\(folder)"
    return (LogFolderSettings(folder: path, text: word.text, cache: cache), Template(parts))
  }

  /// nginx's `off | max=N [inactive=TIME] [min_uses=N] [valid=TIME]`. For logs with variables only: others stay open.
  private static func openLogCache(_ scope: Scope, _ builder: inout SettingsBuilder) -> OpenLogCache {
    guard let line = cache.line(in: scope) else { return .standard }
    if line.arguments.count == 1, line.text(0) == "off" { return .off }
    // nginx's defaults.
    var cache = OpenLogCache(max: 0, inactive: 10_000, valid: 60_000, leastUses: 1)
    for word in line.arguments {
      let parts = word.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let text = parts.count == 2 ? parts[1] : ""
      switch parts[0] {
      case "max": cache.max = openLogNumber(text, 1...10_000, word, &builder) ?? 1
      case "min_uses": cache.leastUses = openLogNumber(text, 1...1_000_000, word, &builder) ?? 1
      case "inactive": cache.inactive = openLogTime(text, word, &builder) ?? 0
      case "valid": cache.valid = openLogTime(text, word, &builder) ?? 0
      default: invalidLogCache(word, "off, or max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]", &builder)
      }
    }
    if cache.max == 0 {
      builder.error(
        line.location, "\"open_log_file_cache\" must have the \"max\" parameter", hint: "open_log_file_cache max=100;")
    }
    return cache
  }

  private static func openLogNumber(
    _ text: String, _ range: ClosedRange<Int>, _ word: Word, _ builder: inout SettingsBuilder
  ) -> Int? {
    if let number = Quantity.number(text), range.contains(number) { return number }
    invalidLogCache(word, "a number from \(range.lowerBound) to \(range.upperBound)", &builder)
    return nil
  }

  private static func openLogTime(_ text: String, _ word: Word, _ builder: inout SettingsBuilder) -> Int? {
    if let time = Quantity.seconds(text), time <= 31_536_000 { return time * 1000 }
    invalidLogCache(word, "a time of up to a year: valid=60s", &builder)
    return nil
  }

  private static func invalidLogCache(_ word: Word, _ hint: Wording, _ builder: inout SettingsBuilder) {
    builder.error(word.location, "invalid parameter \"\(word.text)\" in \"open_log_file_cache\"", hint: hint)
  }

  private static func bufferSize(_ word: Word, _ builder: inout SettingsBuilder) -> Int? {
    guard let size = Quantity.size(String(word.text.dropFirst("buffer=".count))), size > 0,
      size <= Self.largestLogBuffer
    else {
      builder.error(word.location, "invalid buffer size \"\(word.text)\"", hint: "from 1 to 16m, such as buffer=64k")
      return nil
    }
    return size
  }

  private static func flushTime(_ word: Word, _ builder: inout SettingsBuilder) -> Int? {
    guard let time = Quantity.milliseconds(String(word.text.dropFirst("flush=".count))), time > 0 else {
      builder.error(word.location, "invalid flush time \"\(word.text)\"", hint: "a time such as flush=5s")
      return nil
    }
    return time
  }

  private static let largestLogBuffer = 16 << 20
  /// The buffer of `gzip` without `buffer=`, as in nginx.
  private static let compressedBuffer = 65_536

  /// Each log has one buffer in a worker, so all lines with `buffer=` must agree.
  private static func admits(
    _ buffering: LogBuffering, of destination: LogDestination, _ line: Directive, _ builder: inout SettingsBuilder
  ) -> Bool {
    if case .syslog = destination {
      builder.error(line.place(0), "lines to syslog can't be buffered", hint: "remove buffer=, flush= and gzip")
      return false
    }
    if destination == .journal {
      builder.error(line.place(0), "lines to the journal can't be buffered", hint: "remove buffer=, flush= and gzip")
      return false
    }
    if let other = builder[LogLines.self].buffers[destination], other != buffering {
      builder.error(
        line.place(0), "\"access_log \(line.text(0))\" is already defined with another buffer=, flush= or gzip",
        hint: "give every line for this file the same ones")
      return false
    }
    builder[LogLines.self].buffers[destination] = buffering
    return true
  }

  func fileUses(_ location: LocationSettings) -> [FileUse] {
    lines.compactMap { line in
      switch line.destination {
      case .fixed(.file(let path)): .path(.append, path)
      case .fixed: nil
      case .folder(let settings): .path(.change, settings.folder)
      }
    }
  }
}

/// One `access_log` line.
package struct AccessLogSettings: Sendable, Hashable {
  package var destination: AccessLogDestination
  /// The name of the file below the folder, where the destination is a folder; nil otherwise.
  package var name: Template?
  package var format: Template
  package var escape: LogEscaping
  /// Written only when this is neither empty nor "0" (`if=`).
  package var condition: Template?
  /// `buffer=` and `flush=`; nil: as another line for the same log says, or the standard.
  package var buffering: LogBuffering?
  /// Of the destination.
  @NotCompared package private(set) var location: SourceLocation
}

extension LocationSettings {
  package var accessLogs: [AccessLogSettings] { self[AccessLogs.self]?.lines ?? [] }
}

/// A `log_format`: its escaping and its text.
struct LogFormat {
  var escape: LogEscaping
  var text: Template

  /// The formats that a configuration needn't define: nginx's, and `json` with one object in each line.
  static let combined =
    "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\""
}

/// What `access_log` lines refer to, and what they have in common.
private struct LogLines: BlockPart {
  var formats: [String: LogFormat] = [:]
  /// The format `json` is ours, and still without what features add.
  var hasOwnJSON = false
  /// `buffer=` and `flush=` of each log, of both blocks.
  var buffers: [LogDestination: LogBuffering] = [:]

  mutating func endBlock() { (formats, hasOwnJSON) = ([:], false) }
}
