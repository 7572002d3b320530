import Language

/// An option of stunnel's file. Names have no case.
struct StunnelOption: Hashable {
  let name: String
  let value: String
  let line: OldLine
  /// Whether it stands before the services, and is a default of theirs.
  let isDefault: Bool
}

/// stunnel's file: global options, and services with theirs.
struct StunnelFile {
  struct Service {
    let name: String
    let head: OldLine
    /// What stood before the first service, and then the service's own.
    let defaults: [StunnelOption]
    var options: [StunnelOption] = []
  }

  private(set) var globals: [StunnelOption] = []
  private(set) var services: [Service] = []
  /// Lines that are none of stunnel's, and files that can't be read.
  private(set) var faults: [ConversionNote] = []
  private var files = 0
  /// Each service has all defaults, so both are bounded: the time must be that of the text.
  static let maximumDefaults = 200
  static let maximumServices = 5000
  var isTooLarge: Bool { globals.count > Self.maximumDefaults || services.count > Self.maximumServices }

  /// `files`: what `include` names.
  init(_ text: String, file: String, files: SourceFiles) { read(text, file, files, depth: 0) }

  private mutating func read(_ text: String, _ file: String, _ source: SourceFiles, depth: Int) {
    for line in OldText.lines(text, file: file) {
      guard let first = line.text.utf8.first, first != UInt8(ascii: ";"), first != UInt8(ascii: "#") else { continue }
      if first == UInt8(ascii: "[") {
        guard line.text.hasSuffix("]"), line.text.utf8.count > 2 else { fault(line); continue }
        services.append(
          Service(name: String(line.text.dropFirst().dropLast()), head: line, defaults: globals))
        continue
      }
      guard let equals = line.text.utf8.firstIndex(of: UInt8(ascii: "=")) else { fault(line); continue }
      let name = OldText.trimmed(line.text[..<equals])
      let value = OldText.trimmed(line.text[line.text.utf8.index(after: equals)...])
      guard !name.isEmpty else { fault(line); continue }
      if name.lowercased() == "include" {
        include(value, line, source, depth)
        continue
      }
      let isSecret =
        name.lowercased().contains("password") || name.lowercased().contains("ctrl")
        || name.lowercased().hasPrefix("ticket")
      let option = StunnelOption(
        name: name.lowercased(), value: value, line: isSecret ? line.masked("\(name) = …") : line,
        isDefault: services.isEmpty)
      if services.isEmpty { globals.append(option) } else { services[services.count - 1].options.append(option) }
    }
  }

  private mutating func fault(
    _ line: OldLine, _ reason: String = "it is no line of stunnel's: NAME = VALUE, [SERVICE], or a comment"
  ) {
    faults.append(ConversionNote(.refused, line, reason))
    // What it was meant to say may have been a check.
    let option = StunnelOption(name: "", value: "", line: line, isDefault: services.isEmpty)
    if services.isEmpty { globals.append(option) } else { services[services.count - 1].options.append(option) }
  }

  private mutating func include(_ folder: String, _ line: OldLine, _ source: SourceFiles, _ depth: Int) {
    guard depth < 8 else {
      fault(line, "includes are nested more than 8 deep")
      return
    }
    switch source.expand("\(folder.hasSuffix("/") ? String(folder.dropLast()) : folder)/*") {
    case .failure(let unreadable):
      fault(line, "the folder can't be read: \(unreadable.reason)")
    case .success(let paths):
      if paths.isEmpty { fault(line, "no file is found in the folder") }
      for path in paths {
        files += 1
        guard files <= 1000 else {
          fault(line, "more than 1000 files are included")
          return
        }
        switch source.read(path, Parser.maximumFileSize) {
        case .failure(let unreadable):
          fault(line, "\(path) can't be read: \(unreadable.reason)")
        case .success(let bytes): read(String(decoding: bytes, as: UTF8.self), path, source, depth: depth + 1)
        }
      }
    }
  }
}
