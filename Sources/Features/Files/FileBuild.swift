import Forward
import Glibc
import HTTP
import Language
import Observability
package import Traffic

extension FileSettings {
  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> FileSettings? {
    let line = level.isConditional ? nil : tryLine.ownLine(in: level.scope)
    guard let root = fileRoot(level, for: level, &builder) ?? line.map({ standardRoot(of: $0, &builder) }) else {
      return nil
    }
    if root.kind == .wholeAlias, let line {
      builder.error(
        line.location, "\"try_files\" beside an \"alias\" in a location with a regular expression",
        hint: "use root, or a location with a prefix")
    }
    var files: FileSettings = rows.read(level.scope, &builder)
    files.root = root
    files.tryFiles = line.flatMap { tryFiles($0, &builder) }
    return files
  }

  // MARK: Where they are

  /// `user`: the level whose requests get the files, with the values that its lines give variables.
  private static func fileRoot(_ level: Level, for user: Level, _ builder: inout SettingsBuilder) -> FileRoot? {
    let scope = level.scope
    let own = rootLine.ownLine(in: scope)
    if let line = aliasLine.ownLine(in: scope) {
      if let own {
        builder.error(line.location, "\"alias\" beside \"root\"", hint: "one of them; root is at \(own.location)")
      }
      return alias(line, level, for: user, &builder)
    }
    if let own { return place(own, .root, for: user, &builder) }
    switch level {
    case .server, .streamServer: return rootLine.line(in: scope).flatMap { place($0, .root, for: user, &builder) }
    case .location(_, _, let outer), .conditional(_, _, let outer): return fileRoot(outer, for: user, &builder)
    }
  }

  /// nginx's default of `root`: the folder `html`, which is often not there. So `try_files` alone leads to its last word.
  private static func standardRoot(of tryFiles: Directive, _ builder: inout SettingsBuilder) -> FileRoot {
    let folder = resolve("html", in: builder.folder)
    builder.diagnostics.append(
      Diagnostic(
        .notice, at: tryFiles.location,
        "\"try_files\" without \"root\" or \"alias\" looks for files in \"\(folder)\", the default of \"root\"",
        hint: "name the folder: root /folder;"))
    return FileRoot(kind: .root, folder: Array(folder.utf8), rest: Template([]))
  }

  private static func alias(
    _ line: Directive, _ level: Level, for user: Level, _ builder: inout SettingsBuilder
  ) -> FileRoot? {
    switch level.match {
    case .named(let name):
      builder.error(
        line.location, "the \"alias\" directive cannot be used inside the named location \"@\(name)\"", hint: "root")
      return nil
    case .regex: return place(line, .wholeAlias, for: user, &builder)
    case .exact(let path): return place(line, .alias(prefix: path.count), for: user, &builder)
    case .prefix(let path), .prefixNoRegex(let path):
      judge(alias: line, of: String(decoding: path, as: UTF8.self), isInternal: level.scope.isInternal, &builder)
      return place(line, .alias(prefix: path.count), for: user, &builder)
    }
  }

  /// Tells that `alias`, or its location, has no slash at its end, so that more paths lead to files than the author meant.
  private static func judge(
    alias line: Directive, of path: String, isInternal: Bool, _ builder: inout SettingsBuilder
  ) {
    let endsWithSlash = line.text(0).hasSuffix("/")
    if path.hasSuffix("/"), !endsWithSlash, !line.text(0).contains("$") {
      builder.error(
        line.place(0), "\"alias\" has no slash at its end, but location \"\(path)\" has: paths would join its name",
        hint: "alias \(line.text(0))/;")
    } else if isInternal {
      // No client can ask for what the location also matches.
      return
    } else if !path.hasSuffix("/"), endsWithSlash {
      builder.warning(
        line.place(0),
        "\"alias\" has a slash at its end, but location \"\(path)\" has none: it also matches \"\(path)…\"",
        hint: "location \(path)/ { … }")
    } else if !path.hasSuffix("/"), mayBeFolder(path), mayBeFolder(line.text(0)),
      !line.text(0).contains("$")
    {
      builder.warning(
        line.place(0),
        "location \"\(path)\" also matches \"\(path)-old/x\", which is the file \"\(line.text(0))-old/x\"",
        hint: "location \(path)/ { alias \(line.text(0))/; }")
    }
  }

  /// A name with an ending is one of a file.
  private static func mayBeFolder(_ path: String) -> Bool {
    !(path.split(separator: "/").last ?? "").contains(".")
  }

  private static func place(
    _ line: Directive, _ kind: FileRoot.Kind, for user: Level, _ builder: inout SettingsBuilder
  ) -> FileRoot? {
    guard let word = line.arguments.first else { return nil }
    let written = builder.template(word)
    guard let whole = builder.pathBelowFolder(written, at: user) else {
      builder.error(
        word.location, "\"\(line.name)\" begins with a variable: a request could choose any folder",
        hint: "begin with a folder: \(line.name) /srv/$host;")
      return nil
    }
    if whole.uses(where: { $0 == .feature(FileSettings.documentRoot) || $0 == .feature(FileSettings.requestFilename) })
    {
      builder.error(word.location, "\"\(line.name)\" names itself by a variable", hint: "use another variable")
      return nil
    }
    var parts = whole.parts
    if word.text.isEmpty { parts = [.literal([])] }
    guard case .literal(let text)? = parts.first else { return nil }
    var path = Array(resolve(String(decoding: text, as: UTF8.self), in: builder.folder).utf8)
    // The configuration was named relative to the current folder. The process may leave that folder.
    if path.first != 0x2F { path = currentFolder + path }
    if parts.count == 1 {
      if kind == .root { while path.count > 1, path.last == 0x2F { path.removeLast() } }
      parts = []
    } else {
      // What follows the last slash before the first variable is a part of a name that a request completes.
      let end = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
      parts[0] = .literal(Array(path[end...]))
      path = Array(path[..<end])
      if end == path.count, case .literal(let rest) = parts[0], rest.isEmpty { parts.removeFirst() }
    }
    guard path.first == 0x2F, path != [0x2F] else {
      builder.error(
        word.location, "\"\(line.name) \(word.text)\" would serve every file that the process can read, keys too",
        hint: "name a folder that holds only what is served")
      return nil
    }
    return FileRoot(kind: kind, folder: path, rest: Template(parts))
  }

  /// The current folder with a slash at its end; empty if the kernel doesn't say.
  private static var currentFolder: [UInt8] {
    guard let folder = getcwd(nil, 0) else { return [] }
    defer { free(folder) }
    let path = String(cString: folder)
    return Array((path.hasSuffix("/") ? path : "\(path)/").utf8)
  }

  // MARK: try_files

  private static func tryFiles(_ line: Directive, _ builder: inout SettingsBuilder) -> TryFilesSettings? {
    guard let last = line.arguments.last else { return nil }
    let candidates = line.arguments.dropLast().map { word in
      let isFolder = word.text.hasSuffix("/")
      let name = Word(isFolder ? String(word.text.dropLast()) : word.text, at: word.location, quoted: word.quoted)
      return TryFilesSettings.Candidate(path: builder.template(name), isFolder: isFolder)
    }
    if last.text.hasPrefix("@") {
      return TryFilesSettings(
        candidates: candidates, fallback: .named(String(last.text.dropFirst())), location: last.location)
    }
    if last.text.hasPrefix("=") {
      guard let code = Quantity.number(String(last.text.dropFirst())), code == 204 || (400...599).contains(code) else {
        builder.error(
          last.location, "invalid code \"\(last.text)\" in \"try_files\" directive", hint: "=204, or =400 to =599")
        return nil
      }
      return TryFilesSettings(candidates: candidates, fallback: .status(code), location: last.location)
    }
    guard last.text.hasPrefix("/") || last.text.hasPrefix("$") else {
      builder.error(
        last.location, "the last word of \"try_files\" is no path: \"\(last.text)\"", hint: "/path, @name or =CODE")
      return nil
    }
    return TryFilesSettings(candidates: candidates, fallback: .path(builder.template(last)), location: last.location)
  }
}
