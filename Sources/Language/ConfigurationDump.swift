import Observability

/// `sallyport check --dump`: a configuration and every file that it includes, in the form of `nginx -T`. Secrets that
/// stand in the text are masked; keys and passwords in files of their own are never read.
package struct ConfigurationDump: Sendable {
  /// Each file once, in the order in which the parser opened it.
  package let files: [(path: String, bytes: [UInt8])]
  /// The folders in which patterns of `include` look, whether or not they found a file.
  package let folders: Set<String>

  /// Reads the files. Errors of the configuration are those of `Configuration.read`; this one only collects.
  package init(_ main: ConfigurationSource, files source: SourceFiles = .disk) {
    let recorder = SourceRecorder()
    if main == .standardInput, case .success(let bytes) = StandardInput.text { recorder.add(main.name, bytes) }
    var parser = Parser(mainFile: main.name, files: recorder.recording(source))
    _ = main.parse(&parser)
    files = recorder.files
    folders = recorder.folders
  }

  package var text: [UInt8] {
    files.flatMap { Array("# configuration file \($0.path):\n".utf8) + Self.masked($0.bytes, $0.path) + [0x0A] }
  }

  private static let secretFields: Set<String> = [
    "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token",
  ]

  /// The text with `********` for the constant value of a field that carries credentials, for the PIN of a key in a token
  /// (RFC 7512 §2.3 `pin-value`), and for a private key.
  static func masked(_ bytes: [UInt8], _ file: String) -> [UInt8] {
    MaskedSource(bytes, file).text(of: bytes.indices)
  }

  /// Finds what `masked` hides. `end`: how far the text is words, so that the secrets before it are all known.
  static func secrets(in bytes: [UInt8], _ file: String) -> (ranges: [Range<Int>], end: Int) {
    var lexer = Lexer(bytes: bytes, file: file, recordsPieces: true)
    var end = 0
    while let statement = try? lexer.next() {
      if case .end = statement {
        end = bytes.count
        break
      }
    }
    var secrets: [Range<Int>] = []
    var words: [Range<Int>] = []
    for piece in lexer.pieces {
      guard case .word(let range) = piece else {
        switch piece {
        case .semicolon, .open, .close: words = []
        case .word, .comment, .lineFeed: break
        }
        continue
      }
      words.append(range)
      end = max(end, range.upperBound)
      // Without quotes, the value is several words: an error, whose line must not show them.
      if words.count > 2, carriesCredentials(words.prefix(2).map { plain(bytes[$0]) }),
        !bytes[range].contains(UInt8(ascii: "$")), words.count == 3 || plain(bytes[range]) != "always"
      {
        secrets.append(range)
      } else if holdsKey(bytes[range]) {
        secrets.append(range)
      } else {
        secrets += pins(in: bytes, range)
      }
    }
    return (secrets, end)
  }

  /// Whether the word after these is the value of a field with credentials: `add_header`, `proxy_set_header`.
  private static func carriesCredentials(_ words: [String]) -> Bool {
    words.count == 2 && words[0].hasSuffix("_header") && secretFields.contains(words[1].lowercased())
  }

  /// Whether a word has a private key in it, as PEM: for `data:` of `ssl_certificate_key`.
  private static func holdsKey(_ word: ArraySlice<UInt8>) -> Bool {
    word.count > 100 && String(decoding: word, as: UTF8.self).contains("PRIVATE KEY-----")
  }

  /// A word without its quotes.
  private static func plain(_ word: ArraySlice<UInt8>) -> String {
    let text = String(decoding: word, as: UTF8.self)
    guard let quote = text.first, quote == "\"" || quote == "'", text.count > 1 else { return text }
    return String(text.dropFirst().dropLast())
  }

  private static let pinName = Array("pin-value=".utf8)

  /// The PINs of a word, as `MaterialReference` finds them.
  private static func pins(in bytes: [UInt8], _ word: Range<Int>) -> [Range<Int>] {
    var found: [Range<Int>] = []
    var start = word.lowerBound
    while start + pinName.count <= word.upperBound {
      guard bytes[start..<start + pinName.count].elementsEqual(pinName) else {
        start += 1
        continue
      }
      let begin = start + pinName.count
      let ends: Set<UInt8> = [UInt8(ascii: ";"), UInt8(ascii: "&"), UInt8(ascii: "?"), 0x22, 0x27]
      let end = bytes[begin..<word.upperBound].firstIndex(where: { ends.contains($0) }) ?? word.upperBound
      if end > begin { found.append(begin..<end) }
      start = max(end, begin)
    }
    return found
  }
}
