import Review
import TestSupport

/// What `sallyport check --offline` prints of a configuration, without its process.
struct CheckedText: CustomStringConvertible {
  let isValid: Bool
  let lines: [String]
  var description: String { lines.map { $0 + "\n" }.joined() }

  func contains(_ words: String) -> Bool { description.contains(words) }
}

extension Scene {
  /// Checks a configuration whose files are in the scene's folder.
  func check(_ configuration: String, name: String = "check.conf") throws -> CheckedText {
    let path = try write(name, text: Sallyport.withUser(configuration))
    let report = Check(path, .files).report(isStrict: false)
    return CheckedText(isValid: report.isValid, lines: report.lines(isColoured: false))
  }
}
