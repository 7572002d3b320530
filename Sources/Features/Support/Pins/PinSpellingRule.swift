import Crypto
import Forward
import Language
import Observability
import Traffic

/// Checks that a pin can be parsed. A hash is checked here; a file is checked when it is loaded.
enum PinSpellingRule {
  /// `directive`: the one that has the pin.
  static func diagnostic(_ word: Word, of directive: String, folder: String) -> Diagnostic? {
    if word.text == "chain", !word.quoted {
      return Diagnostic(
        .error, at: word.location, "\"chain\" must precede the pins of its line",
        hint:
          "\(directive) chain PIN …; write pins of the leaf in a separate line; for a file with this name, write ./chain"
      )
    }
    do throws(MaterialError) {
      switch Pin.Spelling(word.text) {
      case .keyHash, .certificateHash, .weakHash:
        _ = try Pin.parse(word.text, relativeTo: folder, location: word.location)
      case .file: _ = try MaterialReference(parsing: word.text, relativeTo: folder, location: word.location)
      }
      return nil
    } catch {
      return error.diagnostic
    }
  }
}
