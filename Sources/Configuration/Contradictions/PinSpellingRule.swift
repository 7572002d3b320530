import Crypto
import Observability

/// A pin must be one that can be read: a hash is judged at once, a file when it is loaded.
enum PinSpellingRule {
  static func diagnostic(_ word: Word, folder: String) -> Diagnostic? {
    if word.text == "chain", !word.quoted {
      return Diagnostic(
        .error, at: word.location, "\"chain\" stands before the pins of its line",
        hint: "proxy_ssl_pin chain PIN …; pins of the leaf in a line of their own; a file of that name is ./chain")
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
