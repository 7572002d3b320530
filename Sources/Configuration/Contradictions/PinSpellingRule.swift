import Crypto
import Observability

/// A pin must be one that can be read: a hash is judged at once, a file when it is loaded.
enum PinSpellingRule {
  private static let hashes = ["sha256//", "sha256/", "sha256:", "spki:", "sha1/", "sha1:", "md5/", "md5:"]

  static func diagnostic(_ word: Word, folder: String) -> Diagnostic? {
    if word.text == "chain" {
      return Diagnostic(
        .error, at: word.location, "`proxy_ssl_pin chain` is not supported yet",
        hint: "pin the key of the upstream itself")
    }
    if word.text.hasPrefix("cert:") {
      return Diagnostic(
        .error, at: word.location, "a pin of a certificate's hash (\"cert:\") is not supported yet",
        hint: "pin its key: `sallyport pin FILE` prints it")
    }
    do throws(MaterialError) {
      if hashes.contains(where: { word.text.hasPrefix($0) }) {
        _ = try Pin.parse(word.text, relativeTo: folder, location: word.location)
      } else {
        _ = try MaterialReference(parsing: word.text, relativeTo: folder, location: word.location)
      }
      return nil
    } catch {
      return error.diagnostic
    }
  }
}
