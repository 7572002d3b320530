package import Observability

/// Parses text into a tree of directives and resolves `include`. The parser knows words, braces and `include` only.
///
/// Limits: 8 MiB per file, 64 nested blocks, 16 nested includes, 200 000 directives in all, 10 000 files.
package struct Parser {
  package static let maximumFileSize = 8 << 20
  package static let maximumNesting = 64
  package static let maximumIncludeDepth = 16
  package static let maximumDirectives = 200_000
  package static let maximumFiles = 10_000

  private let files: SourceFiles
  /// The main file's folder, nginx's prefix.
  private let prefix: String
  private var openFiles: [String] = []
  private var directiveCount = 0
  private var fileCount = 0
  package private(set) var diagnostics: [Diagnostic] = []

  package init(mainFile: String, files: SourceFiles) {
    self.files = files
    self.prefix = folder(of: mainFile)
  }

  /// Parses a file and its includes. Errors are in `diagnostics`; the result has what the parser read before an error.
  package mutating func parse(path: String) -> [Directive] {
    switch files.read(path, Self.maximumFileSize) {
    case .failure(let fault): return unreadable("\"\(path)\"", fault)
    case .success(let bytes):
      return parse(bytes: bytes, path: path)
    }
  }

  mutating func unreadable(_ what: String, _ fault: SourceFiles.Unreadable) -> [Directive] {
    diagnostics.append(Diagnostic(.error, at: nil, "cannot read \(what): \(fault.reason)"))
    return []
  }

  package mutating func parse(bytes: [UInt8], path: String) -> [Directive] {
    guard bytes.count <= Self.maximumFileSize else {
      diagnostics.append(Diagnostic(.error, at: nil, "\"\(path)\" is larger than \(Self.maximumFileSize >> 20) MiB"))
      return []
    }
    return parse(bytes: bytes, path: path, nesting: 0)
  }

  private mutating func parse(bytes: [UInt8], path: String, nesting: Int) -> [Directive] {
    openFiles.append(path)
    defer { openFiles.removeLast() }
    var lexer = Lexer(bytes: bytes, file: path)
    var directives: [Directive] = []
    do {
      try parseBlock(&lexer, into: &directives, opener: nil, nesting: nesting)
    } catch {
      diagnostics.append(error.diagnostic)
    }
    return directives
  }

  private mutating func parseBlock(
    _ lexer: inout Lexer, into directives: inout [Directive], opener: Word?, nesting: Int
  ) throws(Lexer.ParseError) {
    while true {
      switch try lexer.next() {
      case .end:
        guard let opener else { return }
        throw fault(
          at: lexer.here, "unexpected end of file, expecting \"}\"",
          hint: "the block of \"\(opener.text)\" that begins in line \(opener.location.line) is not closed")
      case .blockEnd(let place):
        guard opener != nil else {
          throw fault(at: place, "unexpected \"}\"", hint: "no block is open here")
        }
        return
      case .simple(let words):
        guard let name = words.first else { continue }
        try count(name)
        if name.text == "include", !name.quoted {
          directives += try include(words, nesting: nesting)
        } else {
          directives.append(directive(name, words, block: nil))
        }
      case .blockStart(let words):
        guard let name = words.first else { continue }
        try count(name)
        guard nesting < Self.maximumNesting else {
          throw fault(at: name.location, "blocks are nested more than \(Self.maximumNesting) deep")
        }
        var block: [Directive] = []
        do {
          try parseBlock(&lexer, into: &block, opener: name, nesting: nesting + 1)
        } catch {
          directives.append(directive(name, words, block: block))
          throw error
        }
        directives.append(directive(name, words, block: block))
      }
    }
  }

  private mutating func count(_ name: Word) throws(Lexer.ParseError) {
    directiveCount += 1
    guard directiveCount <= Self.maximumDirectives else {
      throw fault(at: name.location, "more than \(Self.maximumDirectives) directives")
    }
  }

  /// Returns the directives that replace an `include`. A pattern may match no file; a plain name must exist.
  private mutating func include(_ words: [Word], nesting: Int) throws(Lexer.ParseError) -> [Directive] {
    guard words.count == 2 else {
      throw fault(
        at: words[0].location, "invalid number of arguments in \"include\" directive", hint: "include FILE | PATTERN;")
    }
    let name = words[1]
    let path = resolve(name.text, in: prefix)
    let isPattern = path.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "[") }
    var included: [Directive] = []
    for path in try isPattern ? expand(path, at: name.location) : [path] {
      guard !openFiles.contains(path) else {
        throw fault(
          at: name.location, "\"\(path)\" includes itself",
          hint: "chain of includes: \((openFiles + [path]).joined(separator: " → "))")
      }
      guard openFiles.count < Self.maximumIncludeDepth else {
        throw fault(at: name.location, "includes are nested more than \(Self.maximumIncludeDepth) deep")
      }
      fileCount += 1
      guard fileCount <= Self.maximumFiles else {
        throw fault(at: name.location, "more than \(Self.maximumFiles) files are included")
      }
      switch files.read(path, Self.maximumFileSize) {
      case .failure(let unreadable):
        diagnostics.append(
          Diagnostic(
            .error, at: name.location, "cannot include \"\(path)\": \(unreadable.reason)",
            hint: "relative names are relative to the main file's folder"))
      case .success(let bytes):
        included += parse(bytes: bytes, path: path, nesting: nesting)
      }
    }
    return included
  }

  private func expand(_ pattern: String, at place: SourceLocation) throws(Lexer.ParseError) -> [String] {
    switch files.expand(pattern) {
    case .success(let paths): return paths
    case .failure(let unreadable):
      throw fault(
        at: place, "cannot include \"\(pattern)\": \(unreadable.reason)",
        hint: "the user that reads the configuration must be able to list the folder")
    }
  }

  private func directive(_ name: Word, _ words: [Word], block: [Directive]?) -> Directive {
    Directive(name: name.text, arguments: Array(words.dropFirst()), block: block, location: name.location)
  }

  private func fault(at place: SourceLocation, _ message: String, hint: String? = nil) -> Lexer.ParseError {
    Lexer.ParseError(diagnostic: Diagnostic(.error, at: place, message, hint: hint))
  }
}

/// Returns the folder of a path, without a final slash except for the root; empty for a name without a folder.
package func folder(of path: String) -> String {
  guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "" }
  return slash == path.startIndex ? "/" : String(path[..<slash])
}

/// Resolves a path that appears in a file of this folder.
package func resolve(_ path: String, in folder: String) -> String {
  path.hasPrefix("/") || folder.isEmpty ? path : folder.hasSuffix("/") ? folder + path : "\(folder)/\(path)"
}
