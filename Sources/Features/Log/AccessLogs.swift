import Language
public import Observability

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

  static let directives: [DirectiveEntry] = [
    .list(
      "access_log", levels.union([.locationIf, .limitExcept]).union(.everyStream),
      .words(
        1...Int.max,
        "FILE | stderr | syslog:… | journal [FORMAT] [buffer=SIZE [flush=TIME]] [gzip[=LEVEL]] [if=CONDITION] | off"),
      "off (nginx: logs/access.log combined)",
      "Where sallyport logs requests. FILE can have variables after a fixed folder, which must exist (`/var/log/sites/$server_name.log`). A value with a slash or a control character, and a name that leaves the folder, gets no line there but one in the error log. No symbolic link below the folder is followed, and `buffer=` isn't allowed. With `gzip`, each full buffer (64k) is compressed and appended: `zcat` reads the file.",
      example: "access_log /var/log/sallyport/access.log combined;", trust: .none),
    .value(
      "open_log_file_cache", levels.union(.everyStream),
      .words(1...4, "off | max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]"),
      "max=64 inactive=10s valid=0 (nginx: off)",
      "How many files of an `access_log` with variables stay open, how long without a line, after how many writes, and how long until sallyport looks whether the name still leads to the file. Other logs stay open.",
      example: "open_log_file_cache max=100 inactive=20s valid=1m;", trust: .none),
    .local(
      "log_format", [.http, .stream], .words(2...Int.max, "NAME [escape=default|json|none] TEXT …"), "combined, json",
      "The format of a line in an access log.", repeatable: true,
      example: "log_format f '$remote_addr $status $bytes_sent';", trust: .none),
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) { builder.collectFormats(http) }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AccessLogs? {
    let lines = builder.accessLogs(level.scope)
    return lines.isEmpty ? nil : AccessLogs(lines: lines)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.logSteps.append(AccessLogStep(lines.compactMap(makers[LiveAccessLogs.self].log)))
  }
}

/// One `access_log` line.
public struct AccessLogSettings: Sendable, Hashable {
  public var destination: AccessLogDestination
  /// The name of the file below the folder, where the destination is a folder; nil otherwise.
  public var name: Template?
  public var format: Template
  public var escape: LogEscaping
  /// Written only when this is neither empty nor "0" (`if=`).
  public var condition: Template?
  /// `buffer=` and `flush=`; nil: as another line for the same log says, or the standard.
  public var buffering: LogBuffering?
  /// Of the destination.
  @NotCompared public private(set) var location: SourceLocation
  public init(
    destination: AccessLogDestination, name: Template? = nil, format: Template, escape: LogEscaping,
    condition: Template?, buffering: LogBuffering? = nil, location: SourceLocation
  ) {
    self.location = location
    self.name = name
    self.buffering = buffering
    self.destination = destination
    self.format = format
    self.escape = escape
    self.condition = condition
  }
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
  /// `buffer=` and `flush=` of each log, of both blocks.
  var buffers: [LogDestination: LogBuffering] = [:]

  mutating func endBlock() { formats = [:] }
}

extension SettingsBuilder {
  fileprivate mutating func collectFormats(_ scope: Scope) {
    // As in nginx, `stream` has no format that needn't be defined.
    if kind == .http {
      let text = template(Word(LogFormat.combined, at: .nowhere))
      self[LogLines.self].formats["combined"] = LogFormat(escape: .default, text: text)
    }
    for line in scope.own("log_format") {
      let name = line.text(0)
      guard self[LogLines.self].formats[name] == nil else {
        error(line.place(0), "duplicate \"log_format\" name \"\(name)\"", hint: "use another name")
        continue
      }
      var escape = LogEscaping.default
      var words = line.arguments.dropFirst()
      if let first = words.first, first.text.hasPrefix("escape=") {
        words = words.dropFirst()
        guard let named = LogEscaping(rawValue: String(first.text.dropFirst("escape=".count))) else {
          error(first.location, "unknown log format escaping \"\(first.text)\"", hint: "escape=default, json or none")
          continue
        }
        escape = named
      }
      let text = Template(words.flatMap { template($0).parts })
      self[LogLines.self].formats[name] = LogFormat(escape: escape, text: text)
    }
    // Many files for nginx define a format of this name; theirs takes precedence.
    if self[LogLines.self].formats["json"] == nil, kind == .http {
      // Its members mean the same in each configuration, also where one defines a variable of such a name.
      let text = ownTemplate(LogFormat.json)
      self[LogLines.self].formats["json"] = LogFormat(escape: .json, text: text)
    }
  }

  /// Builds the access logs. Without `access_log`, there is no access log: no folder for logs exists on every system.
  fileprivate mutating func accessLogs(_ scope: Scope) -> [AccessLogSettings] {
    let lines = scope.list("access_log")
    if lines.contains(where: { $0.text(0) == "off" }) { return [] }
    let cache = openLogCache(scope)
    return lines.compactMap { accessLog($0, cache) }
  }

  /// `cache`: `open_log_file_cache`.
  private mutating func accessLog(_ line: Directive, _ cache: OpenLogCache) -> AccessLogSettings? {
    let formats = self[LogLines.self].formats
    var format: LogFormat?
    var condition: Template?
    var buffer: Int?
    var flush: (milliseconds: Int, word: Word)?
    var gzipLevel: Int?
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("if=") {
        condition = template(Word(String(word.text.dropFirst(3)), at: word.location))
      } else if word.text.hasPrefix("buffer=") {
        buffer = bufferSize(word)
        if buffer == nil { return nil }
      } else if word.text.hasPrefix("flush=") {
        guard let time = flushTime(word) else { return nil }
        flush = (time, word)
      } else if word.text == "gzip" || word.text.hasPrefix("gzip=") {
        gzipLevel = word.text == "gzip" ? 1 : Quantity.number(String(word.text.dropFirst("gzip=".count)))
        guard let level = gzipLevel, (1...9).contains(level) else {
          error(word.location, "invalid compression level \"\(word.text)\"", hint: "gzip, or gzip=1 to gzip=9")
          return nil
        }
      } else if let named = formats[word.text] {
        format = named
      } else {
        let nearest = Spelling.nearest(to: word.text, among: formats.keys.sorted())
        error(
          word.location, "unknown log format \"\(word.text)\"",
          hint: nearest.map { "did you mean \"\($0)\"?" } ?? "define it: log_format \(word.text) '…';")
        // What is wrong with the destination is told too.
        if !line.text(0).contains("$") { _ = logDestination(line) }
        return nil
      }
    }
    if gzipLevel != nil { buffer = buffer ?? Self.compressedBuffer }
    if let flush, buffer == nil {
      error(
        flush.word.location, "\"\(flush.word.text)\" without a buffer",
        hint: "write \"buffer=64k \(flush.word.text)\"; without both, sallyport writes after one second at the latest")
      return nil
    }
    guard let format = format ?? formats["combined"] else {
      error(
        line.location, "log format is not specified",
        hint: "log_format NAME '$remote_addr $status $session_time'; and access_log \(line.text(0)) NAME;")
      return nil
    }
    if line.text(0).contains("$") {
      guard buffer == nil else {
        error(
          line.place(0), "buffered logs cannot have variables in name",
          hint: "remove buffer=, flush= and gzip: lines are collected for at most one second anyway")
        return nil
      }
      return namedLog(line, cache).map { folder, name in
        AccessLogSettings(
          destination: .folder(folder), name: name, format: format.text, escape: format.escape, condition: condition,
          location: line.place(0))
      }
    }
    guard let destination = logDestination(line) else { return nil }
    let buffering = buffer.map { LogBuffering(capacity: $0, flush: flush?.milliseconds, gzipLevel: gzipLevel) }
    if let buffering, !admits(buffering, of: destination, line) { return nil }
    return AccessLogSettings(
      destination: .fixed(destination), format: format.text, escape: format.escape, condition: condition,
      buffering: buffering, location: line.place(0))
  }

  /// An `access_log` with variables: its folder, and the name of the file below it.
  private mutating func namedLog(_ line: Directive, _ cache: OpenLogCache) -> (LogFolderSettings, name: Template)? {
    guard let word = line.arguments.first else { return nil }
    let (count, template) = (diagnostics.count, template(word))
    guard diagnostics.count == count else { return nil }
    var parts = template.parts
    guard case .literal(let bytes)? = parts.first, let slash = bytes.lastIndex(of: 0x2F), slash > 0,
      !word.text.hasPrefix("syslog:")
    else {
      error(
        word.location, "\"\(word.text)\" has no folder before its first variable",
        hint: "begin with a fixed folder that isn't /, such as /var/log/sallyport/$host.log: no request leaves it")
      return nil
    }
    let folder = String(decoding: bytes[...slash], as: UTF8.self)
    let rest = Array(bytes[(slash + 1)...])
    parts[0] = .literal(rest)
    if rest.isEmpty { parts.removeFirst() }
    let path = word.text.hasPrefix("/") || self.folder.isEmpty ? folder : "\(self.folder)/\(folder)"
    return (LogFolderSettings(folder: path, text: word.text, cache: cache), Template(parts))
  }

  /// nginx's `off | max=N [inactive=TIME] [min_uses=N] [valid=TIME]`. For logs with variables only: others stay open.
  private mutating func openLogCache(_ scope: Scope) -> OpenLogCache {
    guard let line = scope.value("open_log_file_cache") else { return .standard }
    if line.arguments.count == 1, line.text(0) == "off" { return .off }
    // nginx's defaults.
    var cache = OpenLogCache(max: 0, inactive: 10_000, valid: 60_000, leastUses: 1)
    for word in line.arguments {
      let parts = word.text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let text = parts.count == 2 ? parts[1] : ""
      switch parts[0] {
      case "max": cache.max = openLogNumber(text, 1...10_000, word) ?? 1
      case "min_uses": cache.leastUses = openLogNumber(text, 1...1_000_000, word) ?? 1
      case "inactive": cache.inactive = openLogTime(text, word) ?? 0
      case "valid": cache.valid = openLogTime(text, word) ?? 0
      default: invalidLogCache(word, "off, or max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME]")
      }
    }
    if cache.max == 0 {
      error(
        line.location, "\"open_log_file_cache\" must have the \"max\" parameter", hint: "open_log_file_cache max=100;")
    }
    return cache
  }

  private mutating func openLogNumber(_ text: String, _ range: ClosedRange<Int>, _ word: Word) -> Int? {
    if let number = Quantity.number(text), range.contains(number) { return number }
    invalidLogCache(word, "a number from \(range.lowerBound) to \(range.upperBound)")
    return nil
  }

  private mutating func openLogTime(_ text: String, _ word: Word) -> Int? {
    if let time = Quantity.seconds(text), time <= 31_536_000 { return time * 1000 }
    invalidLogCache(word, "a time of up to a year: valid=60s")
    return nil
  }

  private mutating func invalidLogCache(_ word: Word, _ hint: Wording) {
    error(word.location, "invalid parameter \"\(word.text)\" in \"open_log_file_cache\"", hint: hint)
  }

  private mutating func bufferSize(_ word: Word) -> Int? {
    guard let size = Quantity.size(String(word.text.dropFirst("buffer=".count))), size > 0,
      size <= Self.largestLogBuffer
    else {
      error(word.location, "invalid buffer size \"\(word.text)\"", hint: "from 1 to 16m, such as buffer=64k")
      return nil
    }
    return size
  }

  private mutating func flushTime(_ word: Word) -> Int? {
    guard let time = Quantity.milliseconds(String(word.text.dropFirst("flush=".count))), time > 0 else {
      error(word.location, "invalid flush time \"\(word.text)\"", hint: "a time such as flush=5s")
      return nil
    }
    return time
  }

  private static let largestLogBuffer = 16 << 20
  /// The buffer of `gzip` without `buffer=`, as in nginx.
  private static let compressedBuffer = 65_536

  /// Each log has one buffer in a worker, so all lines with `buffer=` must agree.
  private mutating func admits(_ buffering: LogBuffering, of destination: LogDestination, _ line: Directive) -> Bool {
    if case .syslog = destination {
      error(line.place(0), "lines to syslog can't be buffered", hint: "remove buffer=, flush= and gzip")
      return false
    }
    if destination == .journal {
      error(line.place(0), "lines to the journal can't be buffered", hint: "remove buffer=, flush= and gzip")
      return false
    }
    if let other = self[LogLines.self].buffers[destination], other != buffering {
      error(
        line.place(0), "\"access_log \(line.text(0))\" is already defined with another buffer=, flush= or gzip",
        hint: "give every line for this file the same ones")
      return false
    }
    self[LogLines.self].buffers[destination] = buffering
    return true
  }
}

extension SourceLocation {
  /// A placeholder location for sallyport's own text, which is in no file.
  static let nowhere = SourceLocation(file: "", line: 0, column: 0)
}

extension AccessLogs {
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
