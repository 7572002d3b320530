import Glibc

/// Where the text of a configuration comes from.
package enum ConfigurationSource: Sendable, Hashable {
  case file(String)
  case standardInput
  /// A text that a command made, such as `sallyport proxy`. `name` appears in places.
  case text(String, name: String)

  /// `-` and `/dev/stdin` are standard input, whatever kind of file that is. A shell's pipe can't be opened as a file.
  package init(_ path: String) {
    self = path == "-" || path == "/dev/stdin" ? .standardInput : .file(path)
  }

  /// The name in diagnostics, whose folder resolves relative names: for a text, the working directory.
  package var name: String {
    switch self {
    case .file(let path): path
    case .standardInput: "stdin"
    case .text(_, let name): name
    }
  }

  /// Whether a reload reads the text again.
  package var isReadAgain: Bool { if case .file = self { true } else { false } }

  /// For messages and logs.
  package var phrase: String {
    switch self {
    case .file(let path): path
    case .standardInput: "standard input"
    case .text(_, let name): name
    }
  }

  package func parse(_ parser: inout Parser) -> [Directive] {
    switch self {
    case .file(let path): return parser.parse(path: path)
    case .text(let text, let name): return parser.parse(bytes: Array(text.utf8), path: name)
    case .standardInput:
      switch StandardInput.text {
      case .success(let bytes): return parser.parse(bytes: bytes, path: name)
      case .failure(let fault): return parser.unreadable(phrase, fault)
      }
    }
  }
}

/// The text on standard input, which can be read only once: the process keeps it.
package enum StandardInput {
  package static let text: Result<[UInt8], SourceFiles.Unreadable> = read()

  private static func read() -> Result<[UInt8], SourceFiles.Unreadable> {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(STDIN_FILENO, &chunk, chunk.count)
      if count < 0 {
        if errno == EINTR { continue }
        return .failure(.init(reason: String(cString: strerror(errno))))
      }
      if count == 0 { return .success(bytes) }
      bytes += chunk[..<count]
      guard bytes.count <= Parser.maximumFileSize else {
        return .failure(.init(reason: "it is larger than \(Parser.maximumFileSize >> 20) MiB"))
      }
    }
  }
}
