import Crypto
import Forward
import Language
import Observability
import Traffic

/// One pin of a `proxy_ssl_pin` or `ssl_client_pin` line.
struct SaidPin {
  var word: Word
  var spelling: Pin.Spelling
  var scope: Pin.Scope

  /// The mode of pins without a word about it: `public_key`, or `certificate` if all are hashes of certificates.
  static func standardMode(of pins: [SaidPin]) -> PinningMode {
    !pins.isEmpty && pins.allSatisfy({ $0.spelling == .certificateHash }) ? .certificate : .publicKey
  }
}

extension SaidPin {
  /// Parses the pins of one line, of upstreams or of clients. Hashes are checked here, files when they are loaded.
  static func all(of line: Directive, _ builder: inout SettingsBuilder) -> [Self] {
    var words = line.arguments[...]
    let scope: Pin.Scope = words.first?.isChainWord == true ? .chain : .leaf
    if scope == .chain { words.removeFirst() }
    if words.isEmpty {
      builder.error(
        line.place(0), "\"\(line.name) chain\" without a pin",
        hint: "\(line.name) chain sha256//BASE64; a file of that name is ./chain")
    }
    return words.map { word in
      if let diagnostic = PinSpellingRule.diagnostic(word, of: line.name, folder: builder.folder) {
        builder.diagnostics.append(diagnostic)
      }
      return SaidPin(word: word, spelling: Pin.Spelling(word.text), scope: scope)
    }
  }
}

extension Word {
  fileprivate var isChainWord: Bool { text == "chain" && !quoted }
}
