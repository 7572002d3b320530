import Observability

extension ProbePolicy.Arguments {
  /// The place of values of the command line, which no diagnostic shows.
  static let place = "command line"

  /// Rewrites a diagnostic for the command line: the option and its value in front, no location, and options in place of
  /// directives.
  func inOptions(_ diagnostic: Diagnostic) -> Diagnostic {
    func told(_ text: String) -> String {
      [
        ("ssl_password_file, or proxy_ssl_password_file towards an upstream", "--password-file FILE"),
        ("\"proxy_ssl_pinning public_key\" compares", "can be combined with pins of keys"),
        ("proxy_ssl_pin ", "--pin "),
      ].reduce(text) { $0.replacing($1.0, with: $1.1) }
    }
    var spoken = diagnostic
    if diagnostic.location?.file == Self.place { spoken.location = nil }
    spoken.message = named(told(diagnostic.message))
    spoken.hint = diagnostic.hint.map(told)
    return spoken
  }

  private func named(_ message: String) -> String {
    let values: [(option: String, value: String?)] =
      [("--cert", certificate), ("--key", key), ("--password-file", passwordFile), ("--cafile", cafile)]
      + pins.map { ("--pin", $0) }
    for case (let option, let value?) in values {
      for start in ["\"\(value)\"", "pin \"\(value)\""] where message.hasPrefix(start) {
        return "\(option) \(message.dropFirst(start.hasPrefix("pin ") ? 4 : 0))"
      }
    }
    return message
  }
}
